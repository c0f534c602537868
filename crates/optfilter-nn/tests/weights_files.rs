//! Weights in files written by Python's safetensors package, see `golden/safetensors_files.py`.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter_nn::safetensors::{from_bytes, to_bytes};
use optfilter_nn::{Layer, Network, Shape};

fn network() -> Network {
    let layers = vec![
        Layer::Conv { channels: 3 },
        Layer::Relu,
        Layer::MaxPool,
        Layer::Flatten,
        Layer::Dense { outputs: 2 },
    ];
    Network::new(Shape::Image { height: 4, width: 4, channels: 2 }, layers).unwrap()
}

/// The weights of the script, in the order of the flat vector.
fn expected() -> Vec<f32> {
    let mut w = vec![0.1, -0.2, 0.3];
    w.extend((0..54).map(|i| f64::from(i).sin() as f32));
    w.extend([0.5, -0.5]);
    w.extend((0..24).map(|i| f64::from(i).cos() as f32));
    w
}

#[test]
fn flax_and_torch_files_are_read() {
    let near = |a: &[f32]| a.iter().zip(expected()).all(|(a, b)| (a - b).abs() < 1e-7);
    assert!(near(
        &from_bytes::<f32>(&network(), include_bytes!("golden/flax.safetensors")).unwrap()
    ));
    assert!(near(
        &from_bytes::<f32>(&network(), include_bytes!("golden/torch.safetensors")).unwrap()
    ));
}

#[test]
fn written_files_are_the_ones_python_writes() {
    // The same tensors under the same names; the data part of both files is the same bytes when the header names them in
    // the same order, so sizes agree up to the header's padding.
    let ours = to_bytes(&network(), &expected(), None).unwrap();
    assert_eq!(from_bytes::<f32>(&network(), &ours).unwrap(), expected());
    let theirs = include_bytes!("golden/flax.safetensors");
    let data = |bytes: &[u8]| {
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert_eq!(data(&ours).len(), data(theirs).len());
}

#[test]
fn wrong_files_are_refused_by_name() {
    let other = Network::mlp(3, &[], 2).unwrap();
    let flax = include_bytes!("golden/flax.safetensors");
    assert!(
        from_bytes::<f32>(&other, flax)
            .unwrap_err()
            .to_string()
            .contains("Dense_0.kernel is F32 [12, 2]")
    );
    let two = Network::mlp(12, &[2], 2).unwrap();
    assert!(from_bytes::<f32>(&two, flax).is_err());
    assert!(
        from_bytes::<f32>(&other, &flax[..20])
            .unwrap_err()
            .to_string()
            .contains("not a safetensors file")
    );
}
