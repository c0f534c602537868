//! How weights move when time passes and nothing is measured.

use super::Weight;

/// The transition function `w_t = f(w_{t-1})` of the weights.
#[derive(Default)]
pub enum Transition<E> {
    /// They stay: what the paper uses, for want of anything better known about weights.
    #[default]
    Identity,
    /// They decay towards a reference: `w <- r + (1 - rate) (w - r)`. Recent labels fade when no new ones confirm them.
    Decay {
        /// Where they decay to: the pre-trained weights, say.
        reference: Vec<E>,
        /// Share of the distance that is lost per time step, 0 to 1.
        rate: f64,
    },
    /// Anything else.
    Custom(
        /// Moves the weights in place.
        Box<dyn FnMut(&mut [E]) + Send>,
    ),
}

impl<E: Weight> Transition<E> {
    /// Moves the weights by one time step.
    pub fn apply(&mut self, weights: &mut [E]) {
        match self {
            Self::Identity => {}
            Self::Decay { reference, rate } => {
                let rate = E::of(*rate);
                for (w, r) in weights.iter_mut().zip(reference) {
                    *w = *w + rate * (*r - *w);
                }
            }
            Self::Custom(f) => f(weights),
        }
    }
}

impl<E> std::fmt::Debug for Transition<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Identity => f.write_str("Identity"),
            Self::Decay { rate, .. } => write!(f, "Decay {{ rate: {rate} }}"),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}
