//! A network written with burn, followed by the library's optimizers: a recurrent one, which optfilter-nn's layers are not.
//!
//! A sine whose frequency drifts is to be continued from its last eight values; every 50 samples the network takes K = 20 Adam steps.
//!
//! `cargo run --release --example drifting_sine` in this folder

use burn::module::Module;
use burn::nn::gru::{Gru, GruConfig};
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor, TensorData};
use optfilter::optim::{Adam, Objective, Optimizer, descend};
use optfilter_nn_burn::BurnObjective;

#[derive(Module, Debug)]
struct Forecaster {
    memory: Gru,
    head: Linear,
}

impl Forecaster {
    fn forward(&self, x: Tensor<3>) -> Tensor<2> {
        let states = self.memory.forward(x, None);
        let [n, length, width] = states.dims();
        self.head.forward(states.narrow(1, length - 1, 1).reshape([n, width]))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::default().autodiff();
    let model = Forecaster {
        memory: GruConfig::new(1, 16, true).init(&device),
        head: LinearConfig::new(16, 1).init(&device),
    };
    let adam = Adam::new(0.01)?;
    let mut phase = 0.0f64;
    let series: Vec<f32> = (0..1058)
        .map(|t| {
            phase += 0.2 + 0.6 * f64::from(t) / 1058.0;
            phase.sin() as f32
        })
        .collect();
    let mut weights = BurnObjective::new(model.clone(), |m: &Forecaster| {
        m.forward(Tensor::zeros([1, 8, 1], &Device::default().autodiff())).sum()
    })
    .weights()?;
    println!("{} weights", weights.len());
    for (step, start) in (0..1000).step_by(50).enumerate() {
        let windows: Vec<f32> =
            (start..start + 50).flat_map(|t| series[t..t + 8].to_vec()).collect();
        let next: Vec<f32> = (start..start + 50).map(|t| series[t + 8]).collect();
        let x = Tensor::<3>::from_data(TensorData::new(windows, [50, 8, 1]), &device);
        let y = Tensor::<2>::from_data(TensorData::new(next, [50, 1]), &device);
        let loss = move |m: &Forecaster| (m.forward(x.clone()) - y.clone()).square().mean();
        let mut objective = BurnObjective::new(model.clone(), loss);
        // Predicted first, learnt afterwards.
        println!(
            "step {step:2}: mean squared error before the update {:.4}",
            objective.value(&weights)
        );
        let mut state = adam.init(&weights);
        descend(&adam, &mut objective, &mut weights, &mut state, 20);
    }
    Ok(())
}
