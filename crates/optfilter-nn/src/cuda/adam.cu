// Adam: adds the partial derivatives in a fixed order, steps, and stores the weights once more as the convolutions need them.

// How much Adam keeps of its two running means, and how much of the newest they take.
struct Decays {
    float keep_mean, new_mean, keep_square, new_square;
};

// Of one weight. `pull` adds the derivative of pull |w - prior|^2 / 2.
struct Step {
    float pull, rate, correct;
    Decays decays;
    __device__ __forceinline__ void take(float g, float &w, float &m, float &v, float prior) const {
        g += pull * (w - prior);
        m = decays.keep_mean * m + decays.new_mean * g;
        v = decays.keep_square * v + decays.new_square * g * g;
        w -= rate * m / (sqrtf(v * correct) + 1e-8f);
    }
};

// With rate 0 the weights stay, and only their second form is stored. `grad`, where given, receives the derivative in the order of the
// weights. Grid: (30, chains), 256 threads. Blocks 0 to 26 take one window place of one of the layers 2 to 4, the others the
// 545 weights elsewhere.
//
// `fragments`: for each of the layers 2 to 4, FRAGMENTS of its weights and FRAGMENTS of the turned weights (window turned by
// half a circle, inputs and outputs exchanged).
extern "C" __global__ void __launch_bounds__(256)
adam(float *weights, uint4 *fragments, float *mean, float *square, const float *__restrict__ prior,
     const float *__restrict__ pulls, const float *__restrict__ partial, int per_chain, int per_block, float rate,
     float correct, Decays decays, float *grad) {
    __shared__ float tile[32 * 33]; // [in][out], and a gap against bank conflicts
    const int chain = blockIdx.y;
    const size_t at = (size_t)chain * PITCH;
    // The blocks of the gradient that met this chain.
    const int first = chain * per_chain / per_block, parts = ((chain + 1) * per_chain - 1) / per_block - first + 1;
    const float *part = partial + (size_t)(first + chain) * PITCH;
    const Step step = {pulls[chain], rate, correct, decays};
    if (blockIdx.x >= 27) {
        const int n = (blockIdx.x - 27) * 256 + threadIdx.x;
        // 320 of layer 1, 3 x 32 biases, 129 of the dense layer.
        if (n >= 545 || (rate == 0.f && !grad)) return;
        const int i = n < 320 ? n : n < 416 ? BIAS(2 + (n - 320) / 32) + (n - 320) % 32 : BIAS_D + n - 416;
        float g = 0.f;
#pragma unroll 8
        for (int p = 0; p < parts; p++) g += part[(size_t)p * PITCH + i];
        if (grad) grad[at + i] = g;
        if (rate != 0.f) step.take(g, weights[at + i], mean[at + i], square[at + i], prior[at + i]);
        return;
    }
    const int l = 2 + blockIdx.x / 9, k = blockIdx.x % 9;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    // This thread's four weights: rows (inputs) in and in + 8, columns out and out + 1 of the tile that its warp adds.
    const int in = warp / 4 * 16 + g, out = warp % 4 * 8 + 2 * t;
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
    if (rate != 0.f || grad) {
        const float4 *from = (const float4 *)(part + KERNEL(l)) + (k * 8 + warp) * 32 + lane;
#pragma unroll 8
        for (int p = 0; p < parts; p++) {
            const float4 v = from[(size_t)p * (PITCH / 4)];
            sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
        }
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const int row = in + j * 8;
        const size_t i = at + KERNEL(l) + (k * 32 + row) * 32 + out;
        float2 w = *(float2 *)&weights[i];
        if (grad) grad[i] = sum[2 * j], grad[i + 1] = sum[2 * j + 1];
        if (rate != 0.f) {
            float2 m = *(float2 *)&mean[i], v = *(float2 *)&square[i], p = w;
            if (step.pull != 0.f) p = *(const float2 *)&prior[i];
            step.take(sum[2 * j], w.x, m.x, v.x, p.x);
            step.take(sum[2 * j + 1], w.y, m.y, v.y, p.y);
            *(float2 *)&weights[i] = w;
            *(float2 *)&mean[i] = m;
            *(float2 *)&square[i] = v;
        }
        tile[row * 33 + out] = w.x;
        tile[row * 33 + out + 1] = w.y;
    }
    __syncthreads();
    // Terms from warp / 4 * 16, channels from warp % 4 * 8.
    const int term = warp / 4 * 16 + 2 * t, channel = warp % 4 * 8 + g;
    uint4 *to = fragments + ((size_t)chain * 6 + (l - 2) * 2) * FRAGMENTS;
    to[(k * 8 + warp) * 32 + lane] = split_weights(tile + term * 33 + channel, 33);
    to[FRAGMENTS + ((8 - k) * 8 + warp) * 32 + lane] = split_weights(tile + channel * 33 + term, 1);
}

// `average` moves towards `weights` by each chain's share. Grid: (1, chains), 256 threads.
extern "C" __global__ void __launch_bounds__(256)
blend(const float *__restrict__ weights, float *average, const float *__restrict__ shares) {
    const size_t at = (size_t)blockIdx.y * PITCH;
    const float share = shares[blockIdx.y];
    if (share == 0.f) return;
    for (int i = threadIdx.x; i < PITCH; i += 256) average[at + i] += share * (weights[at + i] - average[at + i]);
}
