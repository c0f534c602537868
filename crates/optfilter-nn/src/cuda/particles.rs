//! Particle filters on the card: `count` weight vectors for each of several chains.

use super::CudaError;
use super::card::{Card, grid};
use super::sets::{Sets, check_weights, sized};
use super::sizes::{FORWARD_BYTES, HALF_BYTES, PARTICLE_THREADS, PITCH, THREADS};
use cudarc::driver::{CudaSlice, PushKernelArg};

/// Particles of several chains.
#[derive(Debug)]
pub struct Particles<'a> {
    card: &'a Card,
    chains: usize,
    count: usize,
    capacity: usize,
    weights: CudaSlice<f32>,
    /// Where resampled particles go; made at the first resampling.
    other: Option<CudaSlice<f32>>,
}

impl<'a> Particles<'a> {
    /// `count` particles per chain, all at the chain's weights; `capacity` is the most images of a chain.
    pub fn new(
        card: &'a Card,
        start: &[Vec<f32>],
        count: usize,
        capacity: usize,
    ) -> Result<Self, CudaError> {
        let (chains, stream) = (start.len(), &card.stream);
        check_weights(start, chains)?;
        // Every particle is its chain's first one: upload those and copy on the card.
        let mut weights = stream.alloc_zeros(chains * count * PITCH)?;
        for (c, w) in start.iter().enumerate() {
            let mut first = weights.slice_mut(c * count * PITCH..c * count * PITCH + w.len());
            stream.memcpy_htod(w, &mut first)?;
        }
        let mut particles = Self { card, chains, count, capacity, weights, other: None };
        particles.resample(&vec![0; chains * count])?;
        Ok(particles)
    }

    /// Adds normal noise of each chain's standard deviation.
    pub fn disturb(&mut self, stds: &[f32], keys: &[u32], time: u32) -> Result<(), CudaError> {
        sized("standard deviations", stds.len(), self.chains)?;
        sized("words of noise keys", keys.len(), 2 * self.chains)?;
        let stream = &self.card.stream;
        let (stds, keys) = (stream.clone_htod(stds)?, stream.clone_htod(keys)?);
        let mut call = stream.launch_builder(&self.card.disturb);
        call.arg(&mut self.weights).arg(&stds).arg(&keys).arg(&time);
        // SAFETY: the kernel takes these arguments, and touches PITCH floats of each particle.
        unsafe { call.launch(grid(self.count, self.chains, 256, 0)) }?;
        Ok(())
    }

    /// Summed loss of every particle on its chain's images in half precision (activations saturate at 65504), which moves a loss
    /// by about 1e-4 of itself.
    pub fn losses(&self, sets: &[(&[f32], &[u32])]) -> Result<Vec<f32>, CudaError> {
        self.losses_by(sets, false)
    }

    /// The same as good as in single precision, several times slower.
    pub fn losses_exact(&self, sets: &[(&[f32], &[u32])]) -> Result<Vec<f32>, CudaError> {
        self.losses_by(sets, true)
    }

    fn losses_by(&self, sets: &[(&[f32], &[u32])], exact: bool) -> Result<Vec<f32>, CudaError> {
        let stream = &self.card.stream;
        let sets = Sets::new(sets, self.chains, self.capacity)?;
        let (images, labels) = (stream.clone_htod(&sets.images)?, stream.clone_htod(&sets.labels)?);
        let (counts, capacity) = (stream.clone_htod(&sets.counts)?, self.capacity as i32);
        let mut out = stream.alloc_zeros(self.chains * self.count)?;
        let (kernel, threads, shared) = if exact {
            (&self.card.losses, THREADS, FORWARD_BYTES)
        } else {
            (&self.card.losses_half, PARTICLE_THREADS, HALF_BYTES)
        };
        let mut call = stream.launch_builder(kernel);
        call.arg(&self.weights).arg(&images).arg(&labels).arg(&counts).arg(&capacity).arg(&mut out);
        // SAFETY: both kernels take these arguments; each chain has `capacity` images (at least one is read), of which `counts` are
        // used.
        unsafe { call.launch(grid(self.count, self.chains, threads, shared)) }?;
        Ok(stream.clone_dtoh(&out)?)
    }

    /// Replaces each particle by its parent (an index within the chain).
    pub fn resample(&mut self, parents: &[i32]) -> Result<(), CudaError> {
        sized("parents", parents.len(), self.chains * self.count)?;
        if let Some(p) = parents.iter().find(|p| **p < 0 || **p as usize >= self.count) {
            let (what, found) = ("index of a parent", *p as usize);
            return Err(CudaError::Size { what, needed: self.count, found });
        }
        let stream = &self.card.stream;
        let parents = stream.clone_htod(parents)?;
        let mut other = match self.other.take() {
            Some(other) => other,
            None => stream.alloc_zeros(self.chains * self.count * PITCH)?,
        };
        let mut call = stream.launch_builder(&self.card.gather);
        call.arg(&self.weights).arg(&parents).arg(&mut other);
        // SAFETY: the kernel takes these arguments; both buffers hold `chains * count` vectors and parents are below `count`.
        unsafe { call.launch(grid(self.count, self.chains, 256, 0)) }?;
        self.other = Some(std::mem::replace(&mut self.weights, other));
        Ok(())
    }

    /// The weighted mean of each chain's particles.
    pub fn average(&self, p: &[f32]) -> Result<Vec<Vec<f32>>, CudaError> {
        sized("shares", p.len(), self.chains * self.count)?;
        let stream = &self.card.stream;
        let (p, n) = (stream.clone_htod(p)?, self.count as i32);
        let mut out = stream.alloc_zeros(self.chains * PITCH)?;
        let mut call = stream.launch_builder(&self.card.average);
        call.arg(&self.weights).arg(&p).arg(&n).arg(&mut out);
        // SAFETY: the kernel takes these arguments, and writes PITCH floats per chain.
        unsafe { call.launch(grid(PITCH.div_ceil(64), self.chains, 64, 0)) }?;
        let all = stream.clone_dtoh(&out)?;
        Ok(all.chunks_exact(PITCH).map(|w| w[..28_193].to_vec()).collect())
    }

    /// One particle of a chain.
    pub fn particle(&self, chain: usize, index: usize) -> Result<Vec<f32>, CudaError> {
        if chain >= self.chains || index >= self.count {
            let (needed, found) = (self.chains * self.count, chain * self.count + index);
            return Err(CudaError::Size { what: "index of a particle", needed, found });
        }
        let at = (chain * self.count + index) * PITCH;
        Ok(self.card.stream.clone_dtoh(&self.weights.slice(at..at + 28_193))?)
    }
}
