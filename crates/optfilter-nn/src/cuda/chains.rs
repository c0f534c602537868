//! Adam on many chains at once: each chain has its weights, its labels and its own pull to a prior.

use super::CudaError;
use super::card::{Card, grid};
use super::sets::{Sets, check_weights, padded, sized};
use super::sizes::{FORWARD_BYTES, FRAGMENTS, GRADIENT_BYTES, PITCH, THREADS};
use cudarc::driver::{CudaSlice, DeviceRepr, PushKernelArg};
use optfilter::optim::Adam;

/// Chains on the card. Images come in sets (one per seed); several chains may share a set.
#[derive(Debug)]
pub struct Chains<'a> {
    card: &'a Card,
    count: usize,
    weights: CudaSlice<f32>,
    fragments: CudaSlice<u32>,
    mean: CudaSlice<f32>,
    square: CudaSlice<f32>,
    prior: CudaSlice<f32>,
    pulls: CudaSlice<f32>,
    scales: CudaSlice<f32>,
    /// How much each image of its set counts, for each chain.
    factors: CudaSlice<f32>,
    /// Running averages of the weights, where some are kept, and the share of the weights in each step of them.
    averages: Option<(CudaSlice<f32>, CudaSlice<f32>)>,
    /// Where the weights decay to as time passes, if they do, and the share of the distance that is lost.
    decay: Option<(CudaSlice<f32>, CudaSlice<f32>)>,
    set_of: CudaSlice<i32>,
    partial: CudaSlice<f32>,
    loss: CudaSlice<f32>,
    images: CudaSlice<f32>,
    labels: CudaSlice<f32>,
    counts: CudaSlice<i32>,
    capacity: usize,
    /// The most images that a set has now, at least one.
    images_now: usize,
    sets: usize,
}

/// How much Adam keeps of its two running means, and how much of the newest they take: `Decays` of `adam.cu`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Decays {
    keep_mean: f32,
    new_mean: f32,
    keep_square: f32,
    new_square: f32,
}

// SAFETY: four floats in the order of the kernel's struct.
unsafe impl DeviceRepr for Decays {}

impl Decays {
    fn of(adam: &Adam) -> Self {
        Self {
            keep_mean: adam.beta1 as f32,
            new_mean: (1.0 - adam.beta1) as f32,
            keep_square: adam.beta2 as f32,
            new_square: (1.0 - adam.beta2) as f32,
        }
    }
}

/// One step of Adam: its rate and the correction of its squares, both for the number of the step.
#[derive(Clone, Copy, Debug)]
struct Stride {
    rate: f32,
    correct: f32,
    decays: Decays,
}

impl Stride {
    /// Weights stay where they are.
    const NONE: Self = Self {
        rate: 0.0,
        correct: 1.0,
        decays: Decays { keep_mean: 0.0, new_mean: 0.0, keep_square: 0.0, new_square: 0.0 },
    };

    /// Step `k`, from 0.
    fn new(adam: &Adam, k: u32) -> Self {
        let power = |beta: f64| 1.0 - beta.powi(k as i32 + 1);
        let (rate, correct) = (adam.lr / power(adam.beta1), 1.0 / power(adam.beta2));
        Self { rate: rate as f32, correct: correct as f32, decays: Decays::of(adam) }
    }
}

/// How the gradient kernel deals images out.
#[derive(Clone, Copy, Debug)]
struct Deal {
    per_chain: usize,
    per_block: usize,
    blocks: usize,
}

impl Deal {
    /// One block for each multiprocessor, as even as whole images allow.
    fn new(chains: usize, per_chain: usize, processors: usize) -> Self {
        let per_block = (chains * per_chain).div_ceil(processors).max(1);
        Self { per_chain, per_block, blocks: (chains * per_chain).div_ceil(per_block) }
    }

    /// Rows of partial derivatives of a chain, as in `adam.cu`.
    fn rows(&self, chain: usize) -> std::ops::RangeInclusive<usize> {
        let (first, next) = (chain * self.per_chain, (chain + 1) * self.per_chain);
        first / self.per_block + chain..=(next - 1) / self.per_block + chain
    }
}

impl<'a> Chains<'a> {
    /// Chains at the given weights; `set_of[c]` is the set of images of chain c; `capacity` is the most images a set has.
    pub fn new(
        card: &'a Card,
        weights: &[Vec<f32>],
        set_of: &[usize],
        capacity: usize,
    ) -> Result<Self, CudaError> {
        let (count, stream) = (weights.len(), &card.stream);
        sized("sets of chains", set_of.len(), count)?;
        check_weights(weights, count)?;
        let sets = set_of.iter().max().map_or(1, |s| s + 1);
        // There are no more blocks than multiprocessors, and the last row is the last block's number plus the last chain's.
        let rows = card.multiprocessors + count;
        let mut chains = Self {
            card,
            count,
            weights: stream.clone_htod(&padded(weights))?,
            fragments: stream.alloc_zeros(count * FRAGMENTS)?,
            mean: stream.alloc_zeros(count * PITCH)?,
            square: stream.alloc_zeros(count * PITCH)?,
            prior: stream.alloc_zeros(count * PITCH)?,
            pulls: stream.alloc_zeros(count)?,
            scales: stream.clone_htod(&vec![1.0f32; count])?,
            factors: stream.clone_htod(&vec![1.0f32; count * capacity])?,
            averages: None,
            decay: None,
            set_of: stream.clone_htod(&set_of.iter().map(|s| *s as i32).collect::<Vec<_>>())?,
            partial: stream.alloc_zeros(rows * PITCH)?,
            loss: stream.alloc_zeros(rows)?,
            images: stream.alloc_zeros(sets * capacity * 1024)?,
            labels: stream.alloc_zeros(sets * capacity)?,
            counts: stream.alloc_zeros(sets)?,
            capacity,
            images_now: 1,
            sets,
        };
        chains.turn()?;
        Ok(chains)
    }

    /// Other weights for each chain.
    pub fn set_weights(&mut self, weights: &[Vec<f32>]) -> Result<(), CudaError> {
        check_weights(weights, self.count)?;
        self.card.stream.memcpy_htod(&padded(weights), &mut self.weights)?;
        self.turn()
    }

    /// Images and labels of each set: one set for each that `set_of` names, at most `capacity` images of 1024 pixels in it.
    pub fn set_images(&mut self, sets: &[(&[f32], &[u32])]) -> Result<(), CudaError> {
        let sets = Sets::new(sets, self.sets, self.capacity)?;
        let stream = &self.card.stream;
        stream.memcpy_htod(&sets.images, &mut self.images)?;
        stream.memcpy_htod(&sets.labels, &mut self.labels)?;
        stream.memcpy_htod(&sets.counts, &mut self.counts)?;
        self.images_now = sets.counts.iter().max().map_or(1, |n| (*n).max(1) as usize);
        Ok(())
    }

    /// For each chain: the factor of its summed loss, and of the pull `pull |w - prior|^2 / 2` to the weights as they are
    /// when [`Chains::restart`] is called.
    pub fn set_objective(&mut self, scales: &[f32], pulls: &[f32]) -> Result<(), CudaError> {
        sized("factors of the loss", scales.len(), self.count)?;
        sized("factors of the pull", pulls.len(), self.count)?;
        self.card.stream.memcpy_htod(scales, &mut self.scales)?;
        self.card.stream.memcpy_htod(pulls, &mut self.pulls)?;
        Ok(())
    }

    /// For each chain: how much each image of its set counts, `capacity` numbers a chain. One each, until this is called.
    pub fn set_factors(&mut self, factors: &[f32]) -> Result<(), CudaError> {
        sized("factors of images", factors.len(), self.count * self.capacity)?;
        Ok(self.card.stream.memcpy_htod(factors, &mut self.factors)?)
    }

    /// Keeps a running average of each chain's weights from now on: after every step it moves towards them by 1 - decay; a
    /// chain with decay 0 has its weights for an average.
    pub fn keep_averages(&mut self, decays: &[f32]) -> Result<(), CudaError> {
        sized("decays of averages", decays.len(), self.count)?;
        let shares: Vec<f32> = decays.iter().map(|d| 1.0 - d).collect();
        let shares = self.card.stream.clone_htod(&shares)?;
        let mut average = self.card.stream.alloc_zeros(self.count * PITCH)?;
        self.card.stream.memcpy_dtod(&self.weights, &mut average)?;
        self.averages = Some((average, shares));
        Ok(())
    }

    /// From now on [`Chains::pass_time`] moves each chain's weights towards `reference` by its share of the distance.
    pub fn set_decay(&mut self, reference: &[Vec<f32>], shares: &[f32]) -> Result<(), CudaError> {
        sized("shares of the decay", shares.len(), self.count)?;
        check_weights(reference, self.count)?;
        let stream = &self.card.stream;
        self.decay = Some((stream.clone_htod(&padded(reference))?, stream.clone_htod(shares)?));
        Ok(())
    }

    /// The transition to the next time step: weights, and averages where they are kept, decay as told; else they stay.
    pub fn pass_time(&mut self) -> Result<(), CudaError> {
        let Some((reference, shares)) = &self.decay else { return Ok(()) };
        let average = self.averages.as_mut().map(|(average, _)| average);
        for moved in [&mut self.weights].into_iter().chain(average) {
            let mut call = self.card.stream.launch_builder(&self.card.blend);
            call.arg(reference).arg(moved).arg(shares);
            // SAFETY: the kernel takes these arguments; all buffers are of `count` chains.
            unsafe { call.launch(grid(1, self.count, 256, 0)) }?;
        }
        self.turn()
    }

    /// Exchanges weights and averages, where averages are kept: call it before and after what is to see the averages.
    pub fn exchange_averages(&mut self) -> Result<(), CudaError> {
        let Some((average, _)) = &mut self.averages else { return Ok(()) };
        std::mem::swap(average, &mut self.weights);
        self.turn()
    }

    /// Adds normal noise of each chain's standard deviation.
    pub fn disturb(&mut self, stds: &[f32], keys: &[u32], time: u32) -> Result<(), CudaError> {
        sized("standard deviations", stds.len(), self.count)?;
        sized("words of noise keys", keys.len(), 2 * self.count)?;
        let stream = &self.card.stream;
        let (stds, keys) = (stream.clone_htod(stds)?, stream.clone_htod(keys)?);
        let mut call = stream.launch_builder(&self.card.disturb);
        call.arg(&mut self.weights).arg(&stds).arg(&keys).arg(&time);
        // SAFETY: the kernel takes these arguments, and touches one vector of PITCH floats per chain.
        unsafe { call.launch(grid(1, self.count, 256, 0)) }?;
        self.turn()
    }

    /// Begins a time step: fresh memory for Adam, the weights as they are become the prior.
    pub fn restart(&mut self) -> Result<(), CudaError> {
        let stream = &self.card.stream;
        stream.memset_zeros(&mut self.mean)?;
        stream.memset_zeros(&mut self.square)?;
        stream.memcpy_dtod(&self.weights, &mut self.prior)?;
        Ok(())
    }

    /// Begins a time step with Adam's memory carried on: the weights as they are become the prior. Steps go on counting.
    pub fn carry_on(&mut self) -> Result<(), CudaError> {
        Ok(self.card.stream.memcpy_dtod(&self.weights, &mut self.prior)?)
    }

    /// Step `k` (from 0 after a restart) of Adam, with its usual eps, on the first `active` chains.
    pub fn step(&mut self, active: usize, k: u32, adam: &Adam) -> Result<(), CudaError> {
        if active > self.count {
            let what = "active chains";
            return Err(CudaError::Size { what, needed: self.count, found: active });
        }
        if active == 0 {
            return Ok(());
        }
        let deal = self.derive(active)?;
        self.adam(active, deal, Stride::new(adam, k), None)?;
        let Some((average, shares)) = &mut self.averages else { return Ok(()) };
        let mut call = self.card.stream.launch_builder(&self.card.blend);
        call.arg(&self.weights).arg(average).arg(&*shares);
        // SAFETY: the kernel takes these arguments; all buffers are of `count >= active` chains.
        unsafe { call.launch(grid(1, active, 256, 0)) }?;
        Ok(())
    }

    /// Loss and derivative of each chain.
    pub fn gradient(&mut self) -> Result<(Vec<f32>, Vec<Vec<f32>>), CudaError> {
        let deal = self.derive(self.count)?;
        let mut grad = self.card.stream.alloc_zeros(self.count * PITCH)?;
        self.adam(self.count, deal, Stride::NONE, Some(&mut grad))?;
        let grad = self.card.stream.clone_dtoh(&grad)?;
        let loss = self.card.stream.clone_dtoh(&self.loss)?;
        let loss = (0..self.count).map(|c| loss[deal.rows(c)].iter().sum()).collect();
        Ok((loss, grad.chunks_exact(PITCH).map(|g| g[..28_193].to_vec()).collect()))
    }

    /// Launches the gradient kernel.
    fn derive(&mut self, active: usize) -> Result<Deal, CudaError> {
        let deal = Deal::new(active, self.images_now, self.card.multiprocessors);
        let (capacity, chains) = (self.capacity as i32, active as i32);
        let (per_chain, per_block) = (deal.per_chain as i32, deal.per_block as i32);
        let mut call = self.card.stream.launch_builder(&self.card.gradient);
        call.arg(&self.weights)
            .arg(&self.fragments)
            .arg(&self.images)
            .arg(&self.labels)
            .arg(&self.counts);
        call.arg(&self.set_of)
            .arg(&self.scales)
            .arg(&self.factors)
            .arg(&capacity)
            .arg(&chains)
            .arg(&per_chain)
            .arg(&per_block)
            .arg(&mut self.partial)
            .arg(&mut self.loss);
        // SAFETY: the kernel takes these arguments; partial and loss hold a row for each block and chain (see `new`), the sets hold
        // `capacity >= per_chain` images each, factors are `capacity` for each chain, and weights and fragments are of `count >= active` chains.
        unsafe { call.launch(grid(deal.blocks, 1, THREADS, GRADIENT_BYTES)) }?;
        Ok(deal)
    }

    fn adam(
        &mut self,
        active: usize,
        deal: Deal,
        Stride { rate, correct, decays }: Stride,
        grad: Option<&mut CudaSlice<f32>>,
    ) -> Result<(), CudaError> {
        let (per_chain, per_block, none) = (deal.per_chain as i32, deal.per_block as i32, 0u64);
        let mut call = self.card.stream.launch_builder(&self.card.adam);
        call.arg(&mut self.weights)
            .arg(&mut self.fragments)
            .arg(&mut self.mean)
            .arg(&mut self.square);
        call.arg(&self.prior)
            .arg(&self.pulls)
            .arg(&self.partial)
            .arg(&per_chain)
            .arg(&per_block)
            .arg(&rate)
            .arg(&correct)
            .arg(&decays);
        match grad {
            Some(grad) => call.arg(grad),
            None => call.arg(&none), // a null pointer
        };
        // SAFETY: the kernel takes these arguments; all buffers are of `count >= active` chains, and with rate 0 and no
        // `grad` the partial derivatives are not read.
        unsafe { call.launch(grid(30, active, 256, 0)) }?;
        Ok(())
    }

    /// Sets the fragments from the weights.
    fn turn(&mut self) -> Result<(), CudaError> {
        self.adam(self.count, Deal::new(self.count, 1, 1), Stride::NONE, None)
    }

    /// Outputs of `count` images per set for each chain: `images` holds the sets one after the other.
    pub fn predict(&self, images: &[f32], count: usize) -> Result<Vec<f32>, CudaError> {
        sized("pixels", images.len(), self.sets * count * 1024)?;
        let stream = &self.card.stream;
        let images = stream.clone_htod(images)?;
        let mut out = stream.alloc_zeros(self.count * count)?;
        let (n, each) = (count as i32, 8i32);
        let mut call = stream.launch_builder(&self.card.predict);
        call.arg(&self.weights)
            .arg(&self.fragments)
            .arg(&images)
            .arg(&self.set_of)
            .arg(&n)
            .arg(&each)
            .arg(&mut out);
        // SAFETY: the kernel takes these arguments; every set has `count` images.
        unsafe { call.launch(grid(count.div_ceil(8), self.count, THREADS, FORWARD_BYTES)) }?;
        Ok(stream.clone_dtoh(&out)?)
    }

    /// The weights of each chain.
    pub fn weights(&self) -> Result<Vec<Vec<f32>>, CudaError> {
        let all = self.card.stream.clone_dtoh(&self.weights)?;
        Ok(all.chunks_exact(PITCH).map(|w| w[..28_193].to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chain_has_rows_of_its_own() {
        for (chains, images) in [(1, 1), (1, 32), (7, 5), (10, 32), (60, 31), (110, 32), (500, 32)]
        {
            let deal = Deal::new(chains, images, 132);
            assert!(deal.blocks <= 132);
            let mut next = 0;
            for rows in (0..chains).map(|c| deal.rows(c)) {
                assert!(*rows.start() >= next && rows.start() <= rows.end());
                next = rows.end() + 1;
            }
            assert!(next < deal.blocks + chains);
        }
    }
}
