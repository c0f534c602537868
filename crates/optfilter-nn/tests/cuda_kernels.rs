//! The CUDA kernels without a card: compiled as C++ with `cuda_on_cpu/shim.h`, against JAX's numbers.
#![allow(clippy::unwrap_used)] // a test may panic

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs a C++ compiler; `cargo xtask check` runs it where there is one"]
fn kernels_compute_what_jax_computes() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = std::env::temp_dir().join(format!("optfilter-cuda-on-cpu-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let names = ["tile", "layer", "forward", "back", "gradient", "adam", "cloud", "particles"];
    let kernels = names
        .map(|name| format!("{name}.cu"))
        .map(|f| std::fs::read_to_string(here.join("src/cuda").join(f)).unwrap());
    let kernels = kernels
        .concat()
        .replace("extern __shared__ __align__(16) float s[];", "float *s = dynamic_shared;")
        .replace("extern \"C\"", "");
    std::fs::write(dir.join("kernels.inc"), kernels).unwrap();
    for file in ["shim.h", "main.cpp"] {
        std::fs::copy(here.join("tests/cuda_on_cpu").join(file), dir.join(file)).unwrap();
    }
    let program = dir.join("kernels");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let compile = Command::new(&compiler)
        .args(["-O2", "-std=c++17", "-w", "-o"])
        .arg(&program)
        .arg(dir.join("main.cpp"))
        .output();
    let compiled = compile.unwrap_or_else(|e| panic!("{compiler}: {e}; install it or set CXX"));
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: HashMap<&str, f64> = text
        .lines()
        .filter_map(|l| l.split_once(' '))
        .map(|(name, v)| (name, v.parse().unwrap()))
        .collect();

    let golden: serde_json::Value =
        serde_json::from_str(include_str!("golden/adam_trajectory.json")).unwrap();
    let near = |name: &str, expected: f64, tolerance: f64| {
        let value = found[name];
        assert!(
            (value - expected).abs() < tolerance * expected,
            "{name} is {value}, not {expected}"
        );
    };
    for k in 0..2 {
        // Single precision against double, as in the trajectory test.
        near(&format!("loss{k}"), golden["steps"][k]["loss"].as_f64().unwrap(), 1e-5);
        near(&format!("norm{k}"), golden["steps"][k]["gradient_norm"].as_f64().unwrap(), 1e-4);
    }
    let after = golden["steps"][2]["loss"].as_f64().unwrap();
    near("predict", after, 1e-5);
    near("exact4", found["four"], 1e-5);
    near("factors", found["weighted"], 1e-5);
    // Sums of a hundred images in single precision, each product of two halves good to 2^-22.
    assert!(found["linear"] < 1e-5 && found["blend"] < 1e-6, "{text}");
    // Halves keep 10 bits: 5e-4 of a product, less in a sum.
    near("half4", found["exact4"], 1e-3);
    near("half3", found["exact3"], 1e-3);
    // 56,448 normals: five standard errors of the variance (0.6 %) and of the fourth moment (3 x 1.4 %).
    near("variance0", 1.0, 0.03);
    near("variance1", 4.0, 0.03);
    near("kurtosis0", 3.0, 0.05);
}
