//! Any filter of the library behind the traits of [`runner`](crate::runner).

use crate::flags::Judged;
use crate::init_belief::InitBelief;
use crate::runner::{
    CancelCheck, Common, DynFilter, Estimate, InitialState, OnlineFilter, OutputBuffers, Restart,
    number, put, stopped,
};
use crate::step_timer::StepTimer;
use nalgebra::{DefaultAllocator, Dim};
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::drive::{advance, drive};
use optfilter::filter::{Belief, Filter, FilterError, Followed, Track, Update};
use optfilter::model::Step;
use optfilter::{Series, Shapes};
use std::ops::Deref;
use std::sync::Arc;

/// A filter of the library with what its beliefs need.
pub(crate) struct Engine<F: Filter>
where
    F::Belief: InitBelief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    pub(crate) filter: F,
    pub(crate) settings: <F::Belief as InitBelief<F::State>>::Settings,
    pub(crate) common: Common,
}

impl<F: Filter> Deref for Engine<F>
where
    F::Belief: InitBelief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    type Target = Common;
    #[inline(always)]
    fn deref(&self) -> &Common {
        &self.common
    }
}

impl<F: Filter> Engine<F>
where
    F::Belief: InitBelief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn path(&self, belief: &F::Belief) -> Vec<f64> {
        let mut path = self.filter.path(belief);
        path.chunks_mut(self.state_angles.len()).for_each(|state| self.wrap(state));
        path
    }

    #[inline(always)]
    fn write_belief(&self, belief: &F::Belief, out: &mut Estimate) {
        out.mean.clear();
        out.mean.extend_from_slice(belief.mean().as_slice());
        self.wrap(&mut out.mean);
        out.cov.clear();
        if let Some(cov) = belief.cov() {
            out.cov.extend_from_slice(cov.as_slice());
        }
        out.diffuse = belief.diffuse().map(Box::new);
        out.effective = belief.effective();
    }

    /// The normalised innovation squared, of measurements for which it is chi-square.
    #[inline(always)]
    fn nis(&self, update: &Update<F::Output>) -> Option<f64> {
        let seen = |(i, discrete): (usize, &bool)| *discrete && !update.innovation[i].is_nan();
        update.nis.filter(|_| !self.discrete.iter().enumerate().any(seen))
    }

    #[inline(always)]
    fn write_update(&self, update: &Update<F::Output>, out: &mut Estimate) {
        out.innovation.clear();
        out.innovation.extend_from_slice(update.innovation.as_slice());
        out.innovation_cov.clear();
        if let Some(s) = &update.innovation_cov {
            out.innovation_cov.extend_from_slice(s.as_slice());
        }
        out.log_likelihood = update.log_likelihood.unwrap_or(f64::NAN);
        out.nis = self.nis(update).unwrap_or(f64::NAN);
        out.observed = update.observed;
    }

    /// Nothing is known of the track yet.
    fn begun(&self, belief: &F::Belief) -> Track<F::Belief> {
        if self.is_gated { Track::begin(belief.clone()) } else { Track::default() }
    }

    /// Takes note of a row that the belief was just updated by.
    #[inline(always)]
    fn follow(
        &self,
        track: &mut Track<F::Belief>,
        belief: &mut F::Belief,
        predicted: bool,
        (y, u): (&[f64], &[f64]),
        step: &Step,
        update: &Update<F::Output>,
    ) -> Followed {
        if !self.is_gated {
            return Followed::OnTrack;
        }
        if predicted {
            track.predict(&self.filter, u, step);
        }
        self.filter.follow(track, belief, (y, u), step, update)
    }
}

/// An engine that many threads share.
pub(crate) struct Shared<F: Filter>(pub(crate) Arc<Engine<F>>)
where
    F::Belief: InitBelief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>;

impl<F> DynFilter for Shared<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: InitBelief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn common(&self) -> &Common {
        &self.0.common
    }

    fn start(&self, start: &InitialState) -> Result<Box<dyn OnlineFilter>, FilterError> {
        let belief = F::Belief::begin(&self.0.settings, self.0.filter.dims().0, start)?;
        let track = self.0.begun(&belief);
        Ok(Box::new(Moving { engine: self.0.clone(), belief, timer: StepTimer::default(), track }))
    }

    fn load(&self, bytes: &[u8]) -> Result<Box<dyn OnlineFilter>, CheckpointError> {
        let mut live = Moving {
            engine: self.0.clone(),
            belief: F::Belief::begin(&self.0.settings, self.0.filter.dims().0, &self.0.start)
                .map_err(|e| CheckpointError::Body { message: e.to_string() })?,
            timer: StepTimer::default(),
            track: Track::default(),
        };
        live.restore(bytes)?;
        Ok(Box::new(live))
    }

    fn run(
        &self,
        start: &InitialState,
        series: &Series<'_>,
        rows: &mut OutputBuffers<'_>,
        watch: &CancelCheck<'_>,
    ) -> Result<(), FilterError> {
        let engine = &*self.0;
        let mut timer = StepTimer::default();
        let (n, m, _) = engine.filter.dims();
        let (size, outputs) = (n.value(), m.value());
        let mut belief = F::Belief::begin(&engine.settings, n, start)?;
        let (mut done, mut left) = (0, watch.stride);
        let (mut flagger, mut expected) = (engine.flagger.clone(), vec![0.0; outputs]);
        let (mut track, mut other) = (engine.begun(&belief), Restart::default());
        let result = drive(&engine.filter, &mut belief, series, &mut |k, step, belief, update| {
            engine.check_stop()?;
            let row = (series.observation(k), series.input(k));
            let followed =
                engine.follow(&mut track, belief, series.predicts(k), row, step, &update);
            if let Some(anew) = &mut rows.anew {
                other.go_along(followed, k, &track, anew);
            }
            let mean = &mut rows.means[k * size..][..size];
            mean.copy_from_slice(belief.mean().as_slice());
            engine.wrap(mean);
            if !rows.covs.is_empty() {
                let cov = belief.cov();
                put(rows.covs, k, cov.as_ref().map(|c| c.as_slice()), size * size);
            }
            if let Some(rows) = &mut rows.diffuse {
                rows.extend(belief.diffuse());
            }
            put(rows.innovations, k, Some(update.innovation.as_slice()), outputs);
            let s = update.innovation_cov.as_ref().map(|s| s.as_slice());
            put(rows.innovation_covs, k, s, outputs * outputs);
            put(rows.log_likelihoods, k, number(&update.log_likelihood), 1);
            let nis = engine.nis(&update);
            put(rows.nis, k, number(&nis), 1);
            if let Some(flag) = rows.flags.get_mut(k) {
                (engine.expected)(mean, series.input(k), step, &mut expected);
                let nis = nis.unwrap_or(f64::NAN);
                let s = update.innovation_cov.as_ref().map_or(&[][..], |s| s.as_slice());
                let judged = Judged { v: update.innovation.as_slice(), s, nis, followed };
                *flag = f64::from(flagger.flag(row.0, mean, &judged, &expected) as u8);
            }
            if !rows.lagged.is_empty() {
                // As it was estimated, until the window has its last word on it; what is given up on the way gets none.
                rows.lagged[k * size..][..size].copy_from_slice(mean);
                let lag = engine.filter.lag().filter(|lag| k >= *lag);
                let path = lag.map(|lag| (lag, engine.path(belief)));
                if let Some((lag, path)) = path.filter(|(lag, path)| path.len() > lag * size) {
                    rows.lagged[(k - lag) * size..][..size].copy_from_slice(&path[..size]);
                }
            }
            done = k + 1;
            if engine.even && done < series.len() {
                timer.check(&series.step(done))?;
            }
            left -= 1;
            if left == 0 {
                left = watch.stride;
                if (watch.stop)() {
                    return Err(stopped());
                }
            }
            Ok(())
        });
        match result {
            Err(_) => rows.lose(done, series.len()),
            Ok(()) if !rows.lagged.is_empty() => {
                let path = engine.path(&belief);
                let from = rows.lagged.len() - path.len();
                rows.lagged[from..].copy_from_slice(&path);
            }
            Ok(()) => {}
        }
        result
    }
}

impl Restart {
    /// Writes down the other belief as far as it goes along, and hands it over when it is taken.
    fn go_along<B: Belief<N>, N: Dim>(
        &mut self,
        followed: Followed,
        row: usize,
        track: &Track<B>,
        taken: &mut Vec<Restart>,
    ) where
        DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
    {
        match (followed, track.other()) {
            (Followed::Anew, _) => {
                if let [before @ .., _] = track.corrected() {
                    *self = Self { row: row - before.len(), ..Self::default() };
                    before.iter().for_each(|belief| self.write(belief));
                }
                taken.push(std::mem::take(self));
            }
            (_, None) => *self = Self::default(),
            (_, Some((belief, is_new))) => {
                if is_new {
                    *self = Self { row, ..Self::default() };
                }
                self.write(belief);
            }
        }
    }

    fn write<B: Belief<N>, N: Dim>(&mut self, belief: &B)
    where
        DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
    {
        self.means.extend_from_slice(belief.mean().as_slice());
        if let Some(cov) = belief.cov() {
            self.covs.extend_from_slice(cov.as_slice());
        }
    }
}

/// A belief on its way.
struct Moving<F: Filter>
where
    F::Belief: InitBelief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    engine: Arc<Engine<F>>,
    belief: F::Belief,
    timer: StepTimer,
    track: Track<F::Belief>,
}

impl<F> OnlineFilter for Moving<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: InitBelief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn predict(&mut self, u: &[f64], step: &Step) -> Result<(), FilterError> {
        let mut timer = self.timer;
        if self.engine.even {
            timer.check(step)?;
        }
        timer.predicted();
        self.engine.filter.predict_apart(&mut self.belief, u, step)?;
        if self.engine.is_gated {
            self.track.predict(&self.engine.filter, u, step);
        }
        self.timer = timer;
        Ok(())
    }

    fn update(
        &mut self,
        y: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut Estimate,
    ) -> Result<(), FilterError> {
        self.step(false, step, u, y, out)
    }

    #[inline]
    fn step(
        &mut self,
        predict: bool,
        step: &Step,
        u: &[f64],
        y: &[f64],
        out: &mut Estimate,
    ) -> Result<(), FilterError> {
        let mut timer = self.timer;
        if self.engine.even && predict {
            timer.check(step)?;
        }
        let step = &timer.since(step);
        let update = advance(&self.engine.filter, &mut self.belief, predict, (y, u), step)?;
        timer.taken(step, update.observed > 0);
        self.timer = timer;
        self.engine.check_stop()?;
        let Self { engine, belief, track, .. } = self;
        out.followed = engine.follow(track, belief, predict, (y, u), step, &update);
        self.engine.write_belief(&self.belief, out);
        self.engine.write_update(&update, out);
        Ok(())
    }

    fn expected(&self, x: &[f64], u: &[f64], step: &Step, out: &mut [f64]) {
        (self.engine.expected)(x, u, step, out);
    }

    fn estimate(&self, out: &mut Estimate) {
        self.engine.write_belief(&self.belief, out);
    }

    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        let kind = &self.engine.kind;
        match (self.engine.is_gated, self.engine.keeps_time()) {
            (true, _) => checkpoint::save(kind, &(&self.belief, self.timer, &self.track)),
            (false, true) => checkpoint::save(kind, &(&self.belief, self.timer)),
            (false, false) => checkpoint::save(kind, &self.belief),
        }
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let (kind, mut timer, mut track) =
            (&self.engine.kind, StepTimer::default(), Track::default());
        let belief: F::Belief;
        match (self.engine.is_gated, self.engine.keeps_time()) {
            (true, _) => (belief, timer, track) = checkpoint::load(kind, bytes)?,
            (false, true) => (belief, timer) = checkpoint::load(kind, bytes)?,
            (false, false) => belief = checkpoint::load(kind, bytes)?,
        }
        let n = self.engine.filter.dims().0.value();
        for belief in track.other().map(|(other, _)| other).into_iter().chain([&belief]) {
            belief.check_dim(n, 0).map_err(|e| CheckpointError::Body { message: e.to_string() })?;
        }
        (self.belief, self.timer, self.track) = (belief, timer, track);
        Ok(())
    }

    fn path(&self) -> Vec<f64> {
        self.engine.path(&self.belief)
    }

    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        self.belief.particles()
    }
}
