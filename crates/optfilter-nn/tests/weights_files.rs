//! Weights in files written by Python's safetensors package, see `golden/safetensors_files.py`.
#![allow(clippy::unwrap_used)] // a test may panic

use optfilter_nn::safetensors::{from_bytes, from_bytes_classes, to_bytes};
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

/// The same network with one output.
fn logistic() -> Network {
    let two = network();
    let layers = two.layers()[..4].iter().copied();
    let layers = layers.chain([Layer::Dense { outputs: 1 }]).collect();
    Network::new(two.input(), layers).unwrap()
}

/// Two logits of two classes are one: their difference.
#[test]
fn two_logits_are_read_as_their_difference() {
    let w = expected();
    let mut one = w[..57].to_vec();
    one.push(w[58] - w[57]);
    one.extend(w[59..].chunks(2).map(|pair| pair[1] - pair[0]));
    for file in
        [&include_bytes!("golden/flax.safetensors")[..], include_bytes!("golden/torch.safetensors")]
    {
        let read = from_bytes_classes::<f32>(&logistic(), 2, file).unwrap();
        assert_eq!(read.len(), one.len());
        assert!(read.iter().zip(&one).all(|(a, b)| (a - b).abs() < 1e-6));
        // Of a network that predicts a number, two are a mistake.
        assert!(from_bytes::<f32>(&logistic(), file).is_err());
    }
}

/// A file as Python's package writes it: the length of a head in JSON, the head, the data.
fn file(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let (mut head, mut data) = (Vec::new(), Vec::new());
    for (name, kind, shape, bytes) in tensors {
        let (from, to) = (data.len(), data.len() + bytes.len());
        head.push(format!(
            r#""{name}":{{"dtype":"{kind}","shape":{shape:?},"data_offsets":[{from},{to}]}}"#
        ));
        data.extend_from_slice(bytes);
    }
    let head = format!("{{{}}}", head.join(","));
    [&(head.len() as u64).to_le_bytes()[..], head.as_bytes(), &data].concat()
}

/// Names below `params`, words joined by `/`, and numbers of 16 bits.
#[test]
fn names_and_number_types_of_others_are_read() {
    let line = Network::mlp(3, &[], 1).unwrap();
    let bytes = |numbers: &[u16]| numbers.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    // 1, -2, 0.5 and the smallest number above 0, in both types of 16 bits.
    let (half, brain) = ([0x3c00, 0xc000, 0x3800, 0x0001], [0x3f80, 0xc000, 0x3f00, 0x0001]);
    for (names, kind, v) in [
        (["params/Dense_0/bias", "params/Dense_0/kernel"], "F16", half),
        (["params.Dense_0.bias", "params.Dense_0.kernel"], "BF16", brain),
        (["Dense_0/bias", "Dense_0/kernel"], "F16", half),
    ] {
        let least = if kind == "F16" { 2f64.powi(-24) } else { 2f64.powi(-133) };
        let tensors =
            [(names[0], kind, &[1][..], bytes(&v[..1])), (names[1], kind, &[3, 1], bytes(&v[1..]))];
        let read = from_bytes::<f64>(&line, &file(&tensors)).unwrap();
        assert_eq!(read, [1.0, -2.0, 0.5, least]);
    }
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
