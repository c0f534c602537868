//! Flags to settings: what was given, over what came with the weights, over the defaults. A flag that the method does not
//! look at is refused: whoever gives it expects something of it.

use super::args::{Args, MethodName};
use crate::failure::Failure;
use clap::ValueEnum as _;
use optfilter_nn::adapt::{Setup, WeightMethod};
use optfilter_nn::filter::{IvonOptions, Likelihood, Memory, Window};

/// The flags over what came with the weights, or over the defaults: the bank, unless a setting of a single filter is given.
pub fn setup(args: &Args, saved: Option<Setup>) -> Result<Setup, Failure> {
    let single = [
        args.method.is_some(),
        args.optimizer.is_some(),
        args.steps.is_some(),
        args.lr.is_some(),
        args.carry,
        args.window.is_some(),
        args.discount.is_some(),
        args.decay.is_some(),
        args.sigma2.is_some(),
        args.particles.is_some(),
        args.rank.is_some(),
        args.samples.is_some(),
        args.ivon_size.is_some(),
        args.ivon_curvature.is_some(),
        args.ivon_betas.is_some(),
        args.ivon_decay.is_some(),
        args.prior.is_some(),
        args.noise.is_some(),
        args.robust.is_some(),
        args.tune,
    ];
    let single = single.contains(&true);
    if args.auto && single {
        return Err(Failure::usage(
            "--auto chooses the settings itself; leave out those of a single filter (--steps, --lr and so on)",
        ));
    }
    let fresh = saved.is_none();
    let mut base = saved.unwrap_or_default();
    let told_auto = args.auto || matches!(args.method, Some(MethodName::Auto));
    if told_auto || (fresh && !single) {
        base.method = WeightMethod::Auto;
        if fresh {
            base.running_scale = true;
            base.pretrain = 0;
        }
    }
    let told = args.method.and_then(|m| m.to_possible_value());
    let named = told.as_ref().map_or(base.method.parts().0, |t| t.get_name());
    let told = match (family(named), args.rank, args.samples) {
        ("bong", Some(_), Some(_)) => {
            return Err(Failure::usage(
                "--rank and --samples are two forms of --method bong; give one of them",
            ));
        }
        ("bong", Some(_), None) => "bong-low-rank",
        ("bong", None, Some(_)) => "bong-sampled",
        _ => named,
    };
    // Settings of one method are none of another, whose own apply: K, rates, variances, particles.
    if told != base.method.parts().0 {
        base = Setup {
            network: base.network,
            numbers: base.numbers,
            pretrain: base.pretrain,
            seed: base.seed,
            scaling: base.scaling,
            running_scale: base.running_scale,
            bank: base.bank,
            method: WeightMethod::of_parts(told, None, None, None).unwrap_or(base.method),
            ..Setup::default()
        };
        if told == "ivon" {
            base.lr = IvonOptions::default().lr;
        }
    }
    let (_, steps, var, count) = base.method.parts();
    let method = WeightMethod::of_parts(
        told,
        args.steps.or(steps),
        args.sigma2.or(var),
        args.particles.or(args.rank).or(args.samples.map(|n| n as usize)).or(count),
    );
    let method = method.unwrap_or(base.method);
    check(args, method.parts().0)?;
    let ivon = IvonOptions {
        lr: base.ivon.lr, // which is that of the settings
        samples: args.ivon_size.unwrap_or(base.ivon.samples),
        first_curvature: args.ivon_curvature.unwrap_or(base.ivon.first_curvature),
        beta1: args.ivon_betas.map_or(base.ivon.beta1, |b| b.0),
        beta2: args.ivon_betas.map_or(base.ivon.beta2, |b| b.1),
        weight_decay: args.ivon_decay.unwrap_or(base.ivon.weight_decay),
    };
    let length = args.window.unwrap_or(base.window.length());
    let discount = args.discount.unwrap_or(base.window.discount());
    let window =
        Window::new(length, discount).map_err(|e| Failure::usage(format!("--discount: {e}")))?;
    Ok(Setup {
        network: args.network.clone().unwrap_or(base.network),
        method,
        optimizer: args.optimizer.clone().unwrap_or(base.optimizer),
        rule: base.rule,
        lr: args.lr.unwrap_or(base.lr),
        memory: if args.carry { Memory::Carry } else { base.memory },
        window,
        decay: args.decay.unwrap_or(base.decay),
        numbers: base.numbers,
        pretrain: args.pretrain.unwrap_or(base.pretrain),
        seed: args.seed.unwrap_or(base.seed),
        scaling: base.scaling,
        running_scale: base.running_scale,
        prior_var: args.prior.unwrap_or(base.prior_var),
        likelihood: Likelihood {
            noise_var: args.noise.unwrap_or(base.likelihood.noise_var),
            robust: args.robust.or(base.likelihood.robust),
        },
        ivon,
        bank: base.bank,
    })
}

/// What a method is a form of: `bong` of `bong-sampled`.
fn family(method: &str) -> &str {
    method.split('-').next().unwrap_or(method)
}

/// Refuses flags that the method does not look at.
fn check(args: &Args, form: &str) -> Result<(), Failure> {
    let method = family(form);
    const STEPS: &[&str] = &["imap", "vkf", "ivon"];
    const OPTIMIZER: &[&str] = &["imap", "vkf", "direct"];
    const BELIEF: &[&str] = &["ekf", "vdekf", "bong", "lofi"];
    let flags: [(&str, bool, &[&str]); 18] = [
        ("--steps", args.steps.is_some(), STEPS),
        ("--lr", args.lr.is_some(), &["imap", "vkf", "direct", "ivon"]),
        ("--optimizer", args.optimizer.is_some(), OPTIMIZER),
        ("--carry", args.carry, OPTIMIZER),
        ("--window", args.window.is_some_and(|length| length > 0), OPTIMIZER),
        ("--discount", args.discount.is_some(), OPTIMIZER),
        ("--decay", args.decay.is_some(), &["imap", "vkf", "direct", "pf"]),
        ("--sigma2", args.sigma2.is_some(), &["vkf", "pf", "ekf", "vdekf", "bong", "lofi"]),
        ("--particles", args.particles.is_some(), &["pf"]),
        ("--rank", args.rank.is_some(), &["lofi", "bong"]),
        ("--samples", args.samples.is_some(), &["bong"]),
        ("--ivon-size", args.ivon_size.is_some(), &["ivon"]),
        ("--ivon-curvature", args.ivon_curvature.is_some(), &["ivon"]),
        ("--ivon-betas", args.ivon_betas.is_some(), &["ivon"]),
        ("--ivon-decay", args.ivon_decay.is_some(), &["ivon"]),
        ("--prior", args.prior.is_some(), BELIEF),
        ("--noise", args.noise.is_some(), BELIEF),
        ("--robust", args.robust.is_some(), BELIEF),
    ];
    // --compare runs direct fit as well.
    let looks = |methods: &[&str]| {
        methods.contains(&method) || (args.compare && methods.contains(&"direct"))
    };
    for (flag, given, methods) in flags {
        if given && !looks(methods) {
            return Err(Failure::usage(format!(
                "{flag} is nothing to --method {method}; it is for --method {}",
                methods.join(", ")
            )));
        }
    }
    if form == "bong-sampled" && args.robust.is_some() {
        return Err(Failure::usage(
            "--robust needs the linearised network, which --method bong --samples does without; leave out one of them",
        ));
    }
    if args.tune && (args.steps.is_some() || args.lr.is_some()) {
        return Err(Failure::usage(
            "--tune chooses K and the learning rate itself; leave out --steps and --lr",
        ));
    }
    for (flag, count) in [("--particles", args.particles), ("--rank", args.rank)] {
        if count == Some(0) {
            return Err(Failure::usage(format!("{flag} needs at least one")));
        }
    }
    Ok(())
}
