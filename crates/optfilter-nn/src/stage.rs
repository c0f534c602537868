//! The steps in which a network is evaluated: layers joined where one kernel does several, with their working memory.

use crate::kernel::{
    Aligned, AnyConv, AnyPool, BLOCK, ConvScratch, ConvShape, Level, Real, Strided, conv_backward,
    conv_forward, conv_pool_forward, dense_backward, dense_forward, outer, pool_backward,
    pool_forward, round_up, turn,
};
use crate::layer::{Layer, Shape};
use crate::network::Network;

/// How a sample lies in memory: images with a border of one pixel, channels and vectors padded to whole lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub shape: Shape,
    /// Channels of a pixel, or elements of the vector, with padding.
    pub padded: usize,
}

impl Form {
    pub fn len(&self) -> usize {
        match self.shape {
            Shape::Image { height, width, .. } => (height + 2) * (width + 2) * self.padded,
            Shape::Vector(_) => self.padded,
        }
    }

    /// Copies a plain sample in.
    pub fn read<E: Real>(&self, sample: &[E], out: &mut [E]) {
        self.rows(|plain, formed, n| {
            out[formed..formed + n].copy_from_slice(&sample[plain..plain + n])
        });
    }

    /// Copies a plain sample out.
    pub fn write<E: Real>(&self, x: &[E], sample: &mut [E]) {
        self.rows(|plain, formed, n| {
            sample[plain..plain + n].copy_from_slice(&x[formed..formed + n])
        });
    }

    /// Calls `f(place in the plain sample, place in the form, length)` for each contiguous run.
    fn rows(&self, mut f: impl FnMut(usize, usize, usize)) {
        match self.shape {
            Shape::Vector(n) => f(0, 0, n),
            Shape::Image { height, width, channels } if channels == self.padded => {
                for y in 0..height {
                    f(
                        y * width * channels,
                        ((y + 1) * (width + 2) + 1) * channels,
                        width * channels,
                    );
                }
            }
            Shape::Image { height, width, channels } => {
                for y in 0..height {
                    for x in 0..width {
                        f(
                            (y * width + x) * channels,
                            ((y + 1) * (width + 2) + x + 1) * self.padded,
                            channels,
                        );
                    }
                }
            }
        }
    }
}

/// Applied to a stage's output in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    None,
    Relu,
    LeakyRelu,
    Elu,
    Tanh,
}

/// Slope of a leaky ReLU below zero.
const LEAK: f64 = 0.01;

impl Activation {
    /// That of a layer which is one.
    fn of(layer: Option<&Layer>) -> Option<Self> {
        match layer? {
            Layer::Relu => Some(Self::Relu),
            Layer::LeakyRelu => Some(Self::LeakyRelu),
            Layer::Elu => Some(Self::Elu),
            Layer::Tanh => Some(Self::Tanh),
            _ => None,
        }
    }
    fn forward<E: Real>(self, out: &mut [E]) {
        match self {
            Self::None => {}
            Self::Relu => out.iter_mut().for_each(|v| *v = v.max(E::zero())),
            Self::LeakyRelu => {
                out.iter_mut().for_each(|v| *v = if *v > E::zero() { *v } else { *v * E::of(LEAK) })
            }
            Self::Elu => {
                out.iter_mut().for_each(|v| *v = if *v > E::zero() { *v } else { v.exp_m1() })
            }
            Self::Tanh => out.iter_mut().for_each(|v| *v = v.tanh()),
        }
    }
    /// Turns the derivative by the output into the one by what came before the activation.
    fn backward<E: Real>(self, out: &[E], g: &mut [E]) {
        match self {
            Self::None => {}
            Self::Relu => g
                .iter_mut()
                .zip(out)
                .for_each(|(g, y)| *g = if *y > E::zero() { *g } else { E::zero() }),
            Self::LeakyRelu => g
                .iter_mut()
                .zip(out)
                .for_each(|(g, y)| *g = if *y > E::zero() { *g } else { *g * E::of(LEAK) }),
            Self::Elu => g
                .iter_mut()
                .zip(out)
                .for_each(|(g, y)| *g = if *y > E::zero() { *g } else { *g * (*y + E::one()) }),
            Self::Tanh => g.iter_mut().zip(out).for_each(|(g, y)| *g = *g * (E::one() - *y * *y)),
        }
    }
}

/// Weights of one layer in the kernels' layouts.
#[derive(Clone, Debug)]
pub(crate) struct Packed<E: Real> {
    /// Places in the flat vector.
    bias_at: usize,
    kernel_at: usize,
    /// Window places (9 or 1), inputs and outputs without padding, and with it.
    taps: usize,
    inputs: (usize, usize),
    outputs: (usize, usize),
    pub w: Aligned<E>,
    pub wt: Aligned<E>,
    pub bias: Aligned<E>,
    pub dwt: Aligned<E>,
    pub dbias: Aligned<E>,
}

impl<E: Real> Packed<E> {
    fn new(
        at: (usize, usize),
        taps: usize,
        inputs: (usize, usize),
        outputs: (usize, usize),
        sums: bool,
    ) -> Self {
        let len = taps * inputs.1 * outputs.1;
        let sums = if sums { len } else { 0 };
        Self {
            bias_at: at.0,
            kernel_at: at.1,
            taps,
            inputs,
            outputs,
            w: Aligned::zeros(len),
            wt: Aligned::zeros(len),
            bias: Aligned::zeros(outputs.1),
            dwt: Aligned::zeros(sums),
            dbias: Aligned::zeros(if sums > 0 { outputs.1 } else { 0 }),
        }
    }

    /// Whether the weights are read where they are: those of a dense layer (which has no sums) without padding.
    fn is_plain(&self) -> bool {
        self.dwt.is_empty() && self.outputs.0 == self.outputs.1
    }

    /// Weights and biases of a dense layer, for the way forward.
    fn dense<'a>(&'a self, flat: &'a [E]) -> (&'a [E], &'a [E]) {
        match self.is_plain() {
            true => {
                let kernel = &flat[self.kernel_at..][..self.inputs.0 * self.outputs.0];
                (kernel, &flat[self.bias_at..][..self.outputs.0])
            }
            false => (&self.w, &self.bias),
        }
    }

    /// Copies the weights in, unless they are read where they are; the transpose only where the way back will need it.
    pub fn load(&mut self, level: Level, flat: &[E], transpose: bool) {
        let kernel = &flat[self.kernel_at..][..self.taps * self.inputs.0 * self.outputs.0];
        let ((n, padded), (m, _)) = (self.inputs, self.outputs);
        if !self.is_plain() {
            self.bias[..m].copy_from_slice(&flat[self.bias_at..][..m]);
            self.fill(kernel);
        }
        if !transpose {
            return;
        }
        let (rows, stride) = (kernel.chunks_exact(n * m), self.taps * padded);
        for (k, window) in rows.enumerate() {
            turn(level, window, m, &mut self.wt[k * padded..], stride);
        }
    }

    /// Copies the kernel in, row by row where there is padding.
    fn fill(&mut self, kernel: &[E]) {
        let ((n, padded), (m, width)) = (self.inputs, self.outputs);
        if (n, m) == (padded, width) {
            return self.w.copy_from_slice(kernel);
        }
        for (window, to) in kernel.chunks_exact(n * m).zip(self.w.chunks_exact_mut(padded * width))
        {
            for (values, to) in window.chunks_exact(m).zip(to.chunks_exact_mut(width)) {
                match values {
                    [one] => to[0] = *one,
                    _ => to[..m].copy_from_slice(values),
                }
            }
        }
    }

    pub fn clear(&mut self) {
        self.dwt.fill(E::zero());
        self.dbias.fill(E::zero());
    }

    /// Writes the derivative of `count` samples, or adds it, to its places in the flat vector: of a dense layer with the inputs `x` and the
    /// derivatives `g` by its outputs.
    fn put(&self, level: Level, count: usize, x: &[E], g: &[E], (flat, add): (&mut [E], bool)) {
        let g = self.back_rows(g);
        let bias = &mut flat[self.bias_at..][..g.used];
        if !add {
            bias.fill(E::zero());
        }
        for row in g.rows.chunks_exact(g.stride).take(count) {
            bias.iter_mut().zip(row).for_each(|(to, g)| *to += *g);
        }
        let kernel = &mut flat[self.kernel_at..][..self.inputs.0 * self.outputs.0];
        outer(level, count, self.rows(x), g, kernel, add);
    }

    /// Inputs of a dense layer, sample by sample.
    fn rows<'a>(&self, rows: &'a [E]) -> Strided<'a, E> {
        Strided { rows, stride: self.inputs.1, used: self.inputs.0 }
    }

    /// Derivatives by its outputs.
    fn back_rows<'a>(&self, rows: &'a [E]) -> Strided<'a, E> {
        Strided { rows, stride: self.outputs.1, used: self.outputs.0 }
    }

    /// Multiplies what was put.
    pub fn rescale(&self, scale: E, flat: &mut [E]) {
        let bias = self.bias_at..self.bias_at + self.outputs.0;
        let kernel = self.kernel_at..self.kernel_at + self.inputs.0 * self.outputs.0;
        for place in [bias, kernel] {
            flat[place].iter_mut().for_each(|d| *d = *d * scale);
        }
    }

    /// Writes the accumulated derivative to its places in the flat vector, times `scale`.
    pub fn unload(&self, scale: E, flat: &mut [E]) {
        for o in 0..self.outputs.0 {
            flat[self.bias_at + o] = self.dbias[o] * scale;
        }
        let kernel = &mut flat[self.kernel_at..][..self.taps * self.inputs.0 * self.outputs.0];
        let stride = self.taps * self.inputs.1;
        for (row, values) in kernel.chunks_exact_mut(self.outputs.0).enumerate() {
            let (k, i) = (row / self.inputs.0, row % self.inputs.0);
            let column = self.dwt[k * self.inputs.1 + i..].iter().step_by(stride);
            values.iter_mut().zip(column).for_each(|(v, d)| *v = *d * scale);
        }
    }
}

/// What a stage computes.
#[derive(Clone, Debug)]
pub(crate) enum Work<E: Real> {
    Conv { shape: ConvShape, pool: bool, weights: Packed<E>, scratch: ConvScratch<E> },
    AnyConv { shape: AnyConv, weights: Packed<E> },
    Dense { weights: Packed<E> },
    AnyPool(AnyPool),
    Pool,
    Copy,
}

/// One step of the evaluation with its output and the derivative by it: of one sample, or of a block of them where all stages are dense.
#[derive(Clone, Debug)]
pub(crate) struct Stage<E: Real> {
    pub work: Work<E>,
    pub activation: Activation,
    pub input: Form,
    pub output: Form,
    pub out: Aligned<E>,
    pub dout: Aligned<E>,
    /// Places of the maxima, after pooling.
    which: Aligned<E>,
}

/// Joins layers into stages.
pub(crate) fn plan<E: Real>(network: &Network, level: Level) -> (Form, Vec<Stage<E>>) {
    let lane = E::lane(level);
    let input = match network.input() {
        // A grey or colour image keeps its few channels: the convolution has a kernel for that.
        shape @ Shape::Image { channels, .. } => Form { shape, padded: channels },
        shape @ Shape::Vector(n) => Form { shape, padded: round_up(n, lane) },
    };
    let (layers, shapes) = (network.layers(), network.shapes());
    let mut tensors = network.parameters().chunks_exact(2);
    let (mut stages, mut form, mut at) = (Vec::new(), input, 0);
    while at < layers.len() {
        let first = at;
        at += 1;
        let mut activation = Activation::None;
        let mut pool = false;
        if matches!(layers[first], Layer::Conv { .. } | Layer::AnyConv { .. } | Layer::Dense { .. })
            && let Some(next) = Activation::of(layers.get(at))
        {
            activation = next;
            at += 1;
        }
        // ReLU and the maximum commute, so pooling joins either way; other activations are kept apart and pooled by a stage
        // of its own.
        if matches!(layers[first], Layer::Conv { .. })
            && matches!(activation, Activation::None | Activation::Relu)
            && layers.get(at) == Some(&Layer::MaxPool)
        {
            pool = true;
            at += 1;
        }
        let shape = shapes[at];
        let padded = match (layers[first], shape) {
            (Layer::Conv { .. } | Layer::AnyConv { .. }, Shape::Image { channels, .. }) => {
                round_up(channels, lane)
            }
            (_, Shape::Image { .. }) => form.padded,
            (_, Shape::Vector(n)) => round_up(n, lane),
        };
        let output = Form { shape, padded };
        let mut tensor = || tensors.next().map_or((0, 0), |pair| (pair[0].offset, pair[1].offset));
        let work = match (layers[first], form.shape) {
            (Layer::Conv { channels }, Shape::Image { height, width, channels: cin }) => {
                let shape = ConvShape { height, width, cin: form.padded, cout: padded };
                let weights =
                    Packed::new(tensor(), 9, (cin, form.padded), (channels, padded), true);
                Work::Conv { shape, pool, weights, scratch: ConvScratch::new() }
            }
            (
                Layer::AnyConv { channels, size, stride, border },
                Shape::Image { height, width, channels: cin },
            ) => {
                let (rows, columns) = match shape {
                    Shape::Image { height, width, .. } => (height, width),
                    Shape::Vector(_) => (0, 0),
                };
                let sizes = AnyConv {
                    input: (height, width),
                    output: (rows, columns),
                    size,
                    stride,
                    border,
                    cin: form.padded,
                    cout: padded,
                };
                let weights = Packed::new(
                    tensor(),
                    size * size,
                    (cin, form.padded),
                    (channels, padded),
                    true,
                );
                Work::AnyConv { shape: sizes, weights }
            }
            (Layer::AnyPool { size, mean }, Shape::Image { height, width, .. }) => {
                let channels = form.padded;
                Work::AnyPool(AnyPool { input: (height, width), channels, size, mean })
            }
            (Layer::Dense { outputs }, _) => Work::Dense {
                weights: Packed::new(
                    tensor(),
                    1,
                    (form.shape.len(), form.padded),
                    (outputs, padded),
                    false,
                ),
            },
            (Layer::MaxPool, _) => Work::Pool,
            (layer, _) => {
                activation = Activation::of(Some(&layer)).unwrap_or(Activation::None);
                Work::Copy
            }
        };
        let which =
            if pool || matches!(work, Work::Pool | Work::AnyPool(_)) { output.len() } else { 0 };
        let (out, dout) = (Aligned::zeros(output.len()), Aligned::zeros(output.len()));
        stages.push(Stage {
            work,
            activation,
            input: form,
            output,
            out,
            dout,
            which: Aligned::zeros(which),
        });
        form = output;
    }
    if stages.iter().all(|stage| stage.puts()) {
        for stage in &mut stages {
            let len = BLOCK * stage.output.len();
            (stage.out, stage.dout) = (Aligned::zeros(len), Aligned::zeros(len));
        }
    }
    (input, stages)
}

impl<E: Real> Stage<E> {
    /// Computes `out` from `x` and the weights, which are loaded, for `count` samples (more than one where all stages are dense); remembers what the way back needs when `keep`
    /// is set.
    pub fn forward(&mut self, level: Level, flat: &[E], count: usize, x: &[E], keep: bool) {
        let relu = self.activation == Activation::Relu;
        match &mut self.work {
            Work::Conv { shape, pool: true, weights: p, .. } => {
                let which = if keep { Some(&mut self.which[..]) } else { None };
                conv_pool_forward(level, *shape, x, &p.w, &p.bias, relu, &mut self.out, which);
            }
            Work::Conv { shape, weights: p, .. } => {
                conv_forward(level, *shape, x, &p.w, &p.bias, relu, &mut self.out);
                if !relu {
                    // The border would become f(0), which is 0 for every activation here.
                    self.activation.forward(&mut self.out);
                }
            }
            Work::AnyConv { shape, weights: p } => {
                // The border stays zero: every activation here is 0 at 0.
                shape.forward(x, &p.w, &p.bias, &mut self.out);
                self.activation.forward(&mut self.out);
            }
            Work::AnyPool(pool) => pool.forward(x, &mut self.out, &mut self.which),
            Work::Dense { weights: p } => {
                let out = &mut self.out[..count * p.outputs.1];
                let (w, bias) = p.dense(flat);
                dense_forward(level, count, p.rows(x), w, bias, out);
                self.activation.forward(out);
            }
            Work::Pool => {
                if let Shape::Image { height, width, .. } = self.input.shape {
                    pool_forward(
                        x,
                        height,
                        width,
                        self.input.padded,
                        &mut self.out,
                        &mut self.which,
                    );
                }
            }
            Work::Copy => {
                if self.input == self.output {
                    self.out.copy_from_slice(x);
                } else {
                    self.input.write(x, &mut self.out);
                }
                self.activation.forward(&mut self.out);
            }
        }
    }

    /// Whether the derivatives by the weights go to their places at once, and not by way of a sum in another layout.
    pub fn puts(&self) -> bool {
        matches!(self.work, Work::Dense { .. })
    }

    /// Adds the derivatives by the weights and, where wanted, writes those by the input, from `self.dout`. A stage that [`Stage::puts`] writes
    /// them to `flat`, or adds them there.
    pub fn backward(
        &mut self,
        level: Level,
        count: usize,
        x: &[E],
        mut dx: Option<&mut [E]>,
        flat: (&mut [E], bool),
    ) {
        let all = count * self.output.len();
        self.activation.backward(&self.out[..all], &mut self.dout[..all]);
        if let (Some(dx), false) = (dx.as_deref_mut(), self.puts()) {
            dx.fill(E::zero());
        }
        match &mut self.work {
            Work::Conv { shape, pool, weights: p, scratch } => {
                let which = pool.then_some(&self.which[..]);
                let (dwt, dbias) = (&mut p.dwt, &mut p.dbias);
                conv_backward(level, *shape, x, &p.wt, &self.dout, which, dwt, dbias, dx, scratch);
            }
            Work::AnyConv { shape, weights: p } => {
                let (dwt, dbias) = (&mut p.dwt[..], &mut p.dbias[..]);
                shape.backward((x, &p.wt, &self.dout), (dwt, dbias), dx)
            }
            Work::AnyPool(pool) => {
                if let Some(dx) = dx {
                    pool.backward(&self.dout, &self.which, dx);
                }
            }
            Work::Dense { weights: p } => {
                p.put(level, count, x, &self.dout, flat);
                if let Some(dx) = dx {
                    let g = p.back_rows(&self.dout);
                    dense_backward(level, count, &p.wt, g, (dx, p.inputs.1));
                }
            }
            Work::Pool => {
                if let (Shape::Image { height, width, .. }, Some(dx)) = (self.input.shape, dx) {
                    pool_backward(&self.dout, &self.which, height, width, self.input.padded, dx);
                }
            }
            Work::Copy => {
                if let Some(dx) = dx {
                    if self.input == self.output {
                        dx.copy_from_slice(&self.dout);
                    } else {
                        self.input.read(&self.dout, dx);
                    }
                }
            }
        }
    }

    /// The weights, where the stage has some.
    pub fn weights(&mut self) -> Option<&mut Packed<E>> {
        match &mut self.work {
            Work::Conv { weights, .. }
            | Work::AnyConv { weights, .. }
            | Work::Dense { weights } => Some(weights),
            _ => None,
        }
    }
}
