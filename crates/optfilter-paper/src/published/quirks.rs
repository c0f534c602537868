//! Every place where the published program differs from the paper's text, by name.
//!
//! All of them switched on is the program whose output the tables print; each can be switched off alone, to see what it did to
//! the tables. Switching one off puts what the text says (or the textbook, where the text is silent) in its place and leaves
//! all others as they are.

/// One switch for each quirk; `true` is the published behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quirks {
    /// Toy simulator: Q and R multiply the normal draws, as deviations. Off: `sqrt(Q)`, `sqrt(R)`.
    pub toy_noise_as_deviation: bool,
    /// Toy particle filter: Q and R are deviations as well, while EKF, IEKF and UKF take them as variances. Off: variances.
    pub toy_particles_noise_as_deviation: bool,
    /// Toy system, simulator and filters: the forcing that leads to `x_t` is `cos(1.2 (t - 1) dt)`. Off: `cos(1.2 t dt)`.
    pub toy_clock_late: bool,
    /// Toy EKF and IEKF: the transition's derivative is taken at the predicted mean. Off: at the mean it starts from.
    pub toy_jacobian_at_prediction: bool,
    /// Lorenz simulator: the noise is added once, after 10,000 noiseless Euler steps. Off: it is spread over those steps
    /// with the same total variance.
    pub lorenz_noise_once: bool,
    /// Lorenz simulator: the deviation of that noise is `alpha dt`. Off: `alpha sqrt(dt)`, as a Wiener process has.
    pub lorenz_noise_linear_in_dt: bool,
    /// Lorenz, everywhere: beta = 2.667. Off: 8/3.
    pub lorenz_beta_rounded: bool,
    /// Lorenz simulator: the measurement noise has deviation 2, while all filters take 2 as a variance. Off: deviation `sqrt(2)`.
    pub lorenz_measurement_noise_as_deviation: bool,
    /// Lorenz EKF, IEKF, UKF and particle filter: `Q = alpha dt I`. Off: `alpha^2 dt I`.
    pub lorenz_process_covariance_linear: bool,
    /// Lorenz EKF and IEKF: the Jacobian of the step is `dt J`, without the identity. Off: the identity is added.
    pub lorenz_jacobian_without_identity: bool,
    /// Lorenz EKF and IEKF: the Jacobian is taken at the predicted mean. Off: at the mean it starts from.
    pub lorenz_jacobian_at_prediction: bool,
    /// Lorenz EKF and IEKF with RK4: the Jacobian is that of an Euler step. Off: that of the RK4 step.
    pub lorenz_jacobian_of_euler: bool,
    /// All filters but the particle filter start at a draw from the prior. Off: at the prior's mean.
    pub start_drawn: bool,
    /// UKF: all weights are divided by the dimension of the state. Off: they are not.
    pub ukf_weights_over_n: bool,
    /// UKF: the covariance weight of the central point equals its mean weight.
    /// Off: `1 - alpha^2 + beta` is added, with the text's `beta = 3 - n`.
    pub ukf_central_weight_plain: bool,
    /// Particle filter: it draws from the very stream that made the data. Off: from one of its own.
    pub particles_share_stream: bool,
    /// Particle filter: 1e-8 is added to every likelihood before normalising. Off: nothing is.
    pub particles_weight_floor: bool,
    /// Particle filter: the estimate is the mean after resampling. Off: the weighted mean before it.
    pub particles_mean_after_resampling: bool,
    /// Lorenz particle filter with RK4 or Euler: the stored particles are those that the next prediction has already
    /// moved (without noise). Off: those of the step itself.
    pub particles_overwritten: bool,
    /// Adam: the bias correction keeps the value of the first step. Off: it follows the step count.
    pub adam_correction_frozen: bool,
    /// RMSprop: the running mean starts at the first squared gradient. Off: at zero.
    pub rmsprop_starts_at_gradient: bool,
    /// Adadelta: both running means enter without square roots and without eps. Off: the ratio of roots.
    pub adadelta_without_roots: bool,
    /// Adadelta: the running mean of squared steps starts at one, that of squared gradients at the first one. Off: both at zero.
    pub adadelta_warm_start: bool,
    /// The Q searches choose on the runs on which they report. Off: they choose on five other runs.
    pub q_search_in_sample: bool,
}

/// A name, what the program does, what stands in its place when switched off, and the switch.
pub struct Quirk {
    /// The field of [`Quirks`].
    pub name: &'static str,
    /// What the program does.
    pub published: &'static str,
    /// What the text or the textbook says.
    pub instead: &'static str,
    /// What it can change.
    pub reach: &'static [Part],
    switch: fn(&mut Quirks) -> &mut bool,
}

/// A part of the experiments that a quirk can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Data and all filters of the toy system.
    Toy,
    /// Data and all filters of the Lorenz system.
    Lorenz,
    /// EKF and IEKF on the toy system.
    ToyExtended,
    /// EKF, IEKF and the Q search of the EKF on the Lorenz system.
    LorenzExtended,
    /// UKF on the toy system.
    ToyUnscented,
    /// UKF and its Q search on the Lorenz system.
    LorenzUnscented,
    /// Particle filter of the toy system.
    ToyParticles,
    /// Particle filter of the Lorenz system.
    LorenzParticles,
    /// The Lorenz filters that are given the system's own Q.
    LorenzNoise,
    /// All filters that start at a mean.
    Start,
    /// The implicit MAP filter with Adam.
    Adam,
    /// The implicit MAP filter with RMSprop.
    RmsProp,
    /// The implicit MAP filter with Adadelta.
    Adadelta,
    /// The Q searches.
    Search,
}

impl Quirk {
    /// The published program without this one quirk.
    pub fn alone_off(&self) -> Quirks {
        let mut quirks = Quirks::PUBLISHED;
        *(self.switch)(&mut quirks) = false;
        quirks
    }
}

macro_rules! quirks {
    ($($name:ident [$($part:ident),*]: $published:literal => $instead:literal;)*) => {
        impl Quirks {
            /// What was run.
            pub const PUBLISHED: Self = Self { $($name: true),* };
        }
        /// All quirks.
        pub const QUIRKS: &[Quirk] = &[$(Quirk {
            name: stringify!($name),
            published: $published,
            instead: $instead,
            reach: &[$(Part::$part),*],
            switch: |quirks| &mut quirks.$name,
        }),*];
    };
}

quirks! {
    toy_noise_as_deviation [Toy]: "toy simulator: Q and R are standard deviations" => "Q and R are variances";
    toy_particles_noise_as_deviation [ToyParticles]: "toy particle filter: Q and R are standard deviations (EKF, IEKF, UKF: variances)" => "variances there too";
    toy_clock_late [Toy]: "toy forcing cos(1.2 (t-1) dt)" => "cos(1.2 t dt)";
    toy_jacobian_at_prediction [ToyExtended]: "toy EKF, IEKF: F at the predicted mean" => "F at the previous mean";
    lorenz_noise_once [Lorenz]: "Lorenz simulator: 10,000 noiseless Euler steps, then one draw of noise" => "noise in every step, same total variance";
    lorenz_noise_linear_in_dt [Lorenz]: "Lorenz simulator: that draw has deviation alpha dt" => "alpha sqrt(dt)";
    lorenz_beta_rounded [Lorenz]: "Lorenz: beta = 2.667" => "beta = 8/3";
    lorenz_measurement_noise_as_deviation [Lorenz]: "Lorenz simulator: measurement noise of deviation 2, filters take R = 2 I" => "deviation sqrt(2)";
    lorenz_process_covariance_linear [LorenzNoise]: "Lorenz filters: Q = alpha dt I" => "Q = alpha^2 dt I";
    lorenz_jacobian_without_identity [LorenzExtended]: "Lorenz EKF, IEKF: step Jacobian dt J" => "I + dt J";
    lorenz_jacobian_at_prediction [LorenzExtended]: "Lorenz EKF, IEKF: Jacobian at the predicted mean" => "at the previous mean";
    lorenz_jacobian_of_euler [LorenzExtended]: "Lorenz EKF, IEKF with RK4: Jacobian of an Euler step" => "Jacobian of the RK4 step";
    start_drawn [Start]: "filters start at a draw from the prior" => "at the prior's mean";
    ukf_weights_over_n [LorenzUnscented]: "UKF: weights divided by n" => "weights that sum to one";
    ukf_central_weight_plain [ToyUnscented]: "UKF: central covariance weight equal to the mean weight" => "plus 1 - alpha^2 + beta, beta = 3 - n";
    particles_share_stream [ToyParticles, LorenzParticles]: "particle filter draws the same random numbers as the simulator" => "a stream of its own";
    particles_weight_floor [ToyParticles, LorenzParticles]: "particle filter: 1e-8 added to each likelihood" => "no floor";
    particles_mean_after_resampling [ToyParticles, LorenzParticles]: "particle filter: mean of the resampled particles" => "weighted mean before resampling";
    particles_overwritten [LorenzParticles]: "Lorenz particle filter, RK4 and Euler: stored particles advanced by the next prediction" => "particles of the step itself";
    adam_correction_frozen [Adam]: "Adam: bias correction frozen at its first value" => "correction of each step";
    rmsprop_starts_at_gradient [RmsProp]: "RMSprop: running mean starts at the first squared gradient" => "starts at zero";
    adadelta_without_roots [Adadelta]: "Adadelta: step D g / G, no roots, no eps" => "sqrt(D + eps) g / sqrt(G + eps)";
    adadelta_warm_start [Adadelta]: "Adadelta: D starts at 1, G at the first squared gradient" => "both start at zero";
    q_search_in_sample [Search]: "Q search: chosen on the 100 runs it is reported on" => "chosen on 5 other runs";
}
