// Weight vectors as particles: noise, resampling, mean.

// Philox 4x32-10: counter-based, so a particle's noise depends on nothing but its name.
__device__ __forceinline__ uint4 philox(uint4 c, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const unsigned hi0 = __umulhi(0xD2511F53u, c.x), lo0 = 0xD2511F53u * c.x;
        const unsigned hi1 = __umulhi(0xCD9E8D57u, c.z), lo1 = 0xCD9E8D57u * c.z;
        c = make_uint4(hi1 ^ c.y ^ key.x, lo1, hi0 ^ c.w ^ key.y, lo0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return c;
}

// Adds normal noise of the chain's standard deviation to `rows` weight vectors per chain. Grid: (rows, chains), 256 threads.
extern "C" __global__ void __launch_bounds__(256)
disturb(float *weights, const float *__restrict__ stds, const unsigned *__restrict__ keys, unsigned time) {
    const int chain = blockIdx.y;
    float *w = weights + ((size_t)chain * gridDim.x + blockIdx.x) * PITCH;
    const float std = stds[chain];
    const uint2 key = make_uint2(keys[2 * chain], keys[2 * chain + 1]);
    if (std == 0.f) return;
    for (int i = threadIdx.x; i < PITCH / 4; i += 256) {
        const uint4 bits = philox(make_uint4(i, blockIdx.x, time, 0u), key);
        // (0, 1]: the logarithm is finite.
        const float u0 = (bits.x + 1.f) * 2.3283064e-10f, u1 = (bits.z + 1.f) * 2.3283064e-10f;
        const float r0 = sqrtf(-2.f * logf(fminf(u0, 1.f))), r1 = sqrtf(-2.f * logf(fminf(u1, 1.f)));
        const float t0 = 6.2831853f * 2.3283064e-10f * bits.y, t1 = 6.2831853f * 2.3283064e-10f * bits.w;
        w[4 * i] += std * r0 * cosf(t0);
        w[4 * i + 1] += std * r0 * sinf(t0);
        w[4 * i + 2] += std * r1 * cosf(t1);
        w[4 * i + 3] += std * r1 * sinf(t1);
    }
}

// Copies each particle from its parent. Grid: (particles, chains), 256 threads.
extern "C" __global__ void __launch_bounds__(256)
gather(const float *__restrict__ from, const int *__restrict__ parents, float *to) {
    const size_t chain = blockIdx.y, n = gridDim.x;
    const float *a = from + (chain * n + parents[chain * n + blockIdx.x]) * PITCH;
    float *b = to + (chain * n + blockIdx.x) * PITCH;
    for (int i = threadIdx.x; i < PITCH; i += 256) b[i] = a[i];
}

// Weighted mean of a chain's particles. Grid: (PITCH / 64 rounded up, chains), 64 threads.
extern "C" __global__ void __launch_bounds__(64)
average(const float *__restrict__ particles, const float *__restrict__ p, int n, float *out) {
    const size_t chain = blockIdx.y;
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= PITCH) return;
    float sum = 0.f;
    for (int j = 0; j < n; j++) {
        const float share = p[chain * n + j];
        if (share != 0.f) sum = fmaf(share, particles[(chain * n + j) * PITCH + i], sum);
    }
    out[chain * PITCH + i] = sum;
}
