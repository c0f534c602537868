//! NumPy's legacy random stream (`numpy.random.seed`, `rand`, `randn`), bit for bit.
//!
//! The published program draws everything from this stream, so its tables can only be met digit for
//! digit by the same one: MT19937 seeded by `init_genrand`, doubles made of two 32-bit outputs
//! `(a >> 5, b >> 6) -> (a 2^26 + b) / 2^53`, and normals by the polar method of Marsaglia with
//! one value kept for the next call.
//!
//! Only the logarithm is left to the platform's mathematics library, so that normals may differ in
//! the last place where that library does.
//!
//! References: M. Matsumoto and T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998);
//! NumPy's `legacy-distributions.c`.

const N: usize = 624;
const M: usize = 397;

/// The legacy generator with its stored second normal.
#[derive(Clone)]
pub struct RandomState {
    key: [u32; N],
    next: usize,
    spare_normal: Option<f64>,
}

impl RandomState {
    /// The state after `numpy.random.seed(seed)`.
    pub fn new(seed: u32) -> Self {
        let mut state = Self { key: [0; N], next: N, spare_normal: None };
        state.reseed(seed);
        state
    }

    /// Start again from `seed`; a stored normal is forgotten.
    pub fn reseed(&mut self, seed: u32) {
        self.key[0] = seed;
        for i in 1..N {
            let previous = self.key[i - 1];
            self.key[i] =
                1_812_433_253_u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(i as u32);
        }
        self.next = N;
        self.spare_normal = None;
    }

    fn twist(&mut self) {
        #[inline(always)]
        fn mix(upper: u32, lower: u32) -> u32 {
            let y = (upper & 0x8000_0000) | (lower & 0x7fff_ffff);
            (y >> 1) ^ ((y & 1).wrapping_neg() & 0x9908_b0df)
        }
        for i in 0..N - M {
            self.key[i] = self.key[i + M] ^ mix(self.key[i], self.key[i + 1]);
        }
        for i in N - M..N - 1 {
            self.key[i] = self.key[i + M - N] ^ mix(self.key[i], self.key[i + 1]);
        }
        self.key[N - 1] = self.key[M - 1] ^ mix(self.key[N - 1], self.key[0]);
        self.next = 0;
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.twist();
        }
        let mut y = self.key[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A double in [0, 1) with 53 random bits (`random_sample`).
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        let a = self.next_u32() >> 5;
        let b = self.next_u32() >> 6;
        (f64::from(a) * 67_108_864.0 + f64::from(b)) / 9_007_199_254_740_992.0
    }

    /// A standard normal (`standard_normal` of the legacy generator).
    #[inline]
    pub fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare_normal.take() {
            return value;
        }
        loop {
            let x1 = 2.0 * self.uniform() - 1.0;
            let x2 = 2.0 * self.uniform() - 1.0;
            let r2 = x1 * x1 + x2 * x2;
            if r2 < 1.0 && r2 != 0.0 {
                let f = (-2.0 * r2.ln() / r2).sqrt();
                self.spare_normal = Some(f * x1);
                return f * x2;
            }
        }
    }

    /// Fill a slice with standard normals, in order.
    pub fn fill_normal(&mut self, out: &mut [f64]) {
        for value in out {
            *value = self.normal();
        }
    }

    /// Fill a slice with uniforms, in order.
    pub fn fill_uniform(&mut self, out: &mut [f64]) {
        for value in out {
            *value = self.uniform();
        }
    }
}
