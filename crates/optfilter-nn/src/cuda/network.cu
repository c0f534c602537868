// The paper's network (four times 3x3 convolution with 32 channels, ReLU, 2x2 max-pool; one dense output) for many
// weight vectors at once.
//
// One block takes one image of one chain through the whole network, forward and back, with every activation in shared
// memory; nothing but weights is read and nothing but the derivative is written. In the convolutions a lane is an output
// channel and a warp a patch of 4x4 (or 2x2) pixels: a pixel's value is one broadcast for 32 lanes, four input channels
// at a time, and each is used for up to nine places of the window from registers.
//
// The derivative by a convolution's input is a convolution again, of the spread-out derivative with the turned weights, so
// it is the same code. The derivative by the weights visits only the pixels that the pool let through and the ReLU left on;
// there a lane is an input channel.
//
// Each block writes its own partial derivative and the Adam kernel adds them in order: no atomics, the same result every time.
//
// Weights lie as in Flax (bias, then kernel, layer by layer), with PITCH floats per chain.

#define THREADS 512
#define WARPS 16
#define WEIGHTS 28193
#define PITCH 28224
// Bias and kernel of layer 1 (1 -> 32 channels), of layers 2 to 4 (32 -> 32), of the dense layer (128 -> 1).
#define BIAS1 0
#define KERNEL1 32
#define BIAS(l) (320 + ((l) - 2) * 9248)
#define KERNEL(l) (BIAS(l) + 32)
#define BIAS_D 28064
#define KERNEL_D 28065
// Turned weights of layers 2 to 4: [9][out][in] each.
#define TURNED 9216

// Shared memory, in floats. Images have a border of one pixel.
#define X0 0
#define A1 (X0 + 1156)
#define A2 (A1 + 18 * 18 * 32)
#define A3 (A2 + 10 * 10 * 32)
#define A4 (A3 + 6 * 6 * 32)
#define SCRATCH (A4 + 128)
#define FORWARD_FLOATS (SCRATCH + 64)
#define D4 (SCRATCH + 64)
#define D3 (D4 + 128)
#define D2 (D3 + 512)
#define D1 (D2 + 2048)
#define SPREAD (D1 + 8192)
#define WHICH (SPREAD + 18 * 18 * 32)
// Places of the maxima, one byte each.
#define WHICH1 0
#define WHICH2 8192
#define WHICH3 10240
#define WHICH4 10752
#define GRADIENT_FLOATS (WHICH + 2720)

__device__ __forceinline__ float relu(float v) { return v > 0.f ? v : 0.f; }

__device__ __forceinline__ void zero(float *s, int n) {
    for (int i = threadIdx.x; i < n; i += THREADS) s[i] = 0.f;
}

// Reads one image into its bordered place.
__device__ __forceinline__ void read_image(float *x0, const float *image) {
    for (int i = threadIdx.x; i < 1024; i += THREADS) x0[(i / 32 + 1) * 34 + i % 32 + 1] = image[i];
}

// Pool, ReLU and store of one window; `out` is bordered unless it is the last layer.
template <int H, bool KEEP, bool LAST>
__device__ __forceinline__ void window(float a, float b, float c, float d, int wy, int wx, int lane, float *out,
                                       unsigned char *which) {
    float best = a;
    int place = 0;
    if (b > best) { best = b; place = 1; }
    if (c > best) { best = c; place = 2; }
    if (d > best) { best = d; place = 3; }
    const int half = H / 2;
    const int at = LAST ? wy * half + wx : (wy + 1) * (half + 2) + wx + 1;
    out[at * 32 + lane] = relu(best);
    if (KEEP) which[(wy * half + wx) * 32 + lane] = (unsigned char)place;
}

// First layer: one input channel.
template <bool KEEP>
__device__ __forceinline__ void first_layer(const float *x0, const float *__restrict__ weights, float *out,
                                            unsigned char *which) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float w[9];
#pragma unroll
    for (int k = 0; k < 9; k++) w[k] = weights[KERNEL1 + k * 32 + lane];
    const float bias = weights[BIAS1 + lane];
    for (int patch = warp; patch < 64; patch += WARPS) {
        const int py = patch / 8 * 4, px = patch % 8 * 4;
        float acc[4][4];
#pragma unroll
        for (int i = 0; i < 16; i++) acc[i / 4][i % 4] = bias;
#pragma unroll
        for (int r = 0; r < 6; r++) {
            float x[6];
#pragma unroll
            for (int c = 0; c < 6; c++) x[c] = x0[(py + r) * 34 + px + c];
#pragma unroll
            for (int ky = 0; ky < 3; ky++) {
                if (r - ky < 0 || r - ky > 3) continue;
#pragma unroll
                for (int o = 0; o < 4; o++)
#pragma unroll
                    for (int kx = 0; kx < 3; kx++) acc[r - ky][o] = fmaf(x[o + kx], w[ky * 3 + kx], acc[r - ky][o]);
            }
        }
#pragma unroll
        for (int v = 0; v < 4; v++) {
            const int y = v / 2 * 2, x = v % 2 * 2;
            window<32, KEEP, false>(acc[y][x], acc[y][x + 1], acc[y + 1][x], acc[y + 1][x + 1], (py + y) / 2,
                                    (px + x) / 2, lane, out, which);
        }
    }
}

// One P x P patch of a convolution from 32 to 32 channels. `in` is bordered with rows of H + 2 pixels.
template <int H, int P>
__device__ __forceinline__ void patch32(const float *in, const float *__restrict__ kernel, int py, int px, int lane,
                                        float acc[P][P]) {
#pragma unroll 1
    for (int i4 = 0; i4 < 32; i4 += 4) {
        float w[9][4];
#pragma unroll
        for (int k = 0; k < 9; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) w[k][j] = kernel[(k * 32 + i4 + j) * 32 + lane];
#pragma unroll
        for (int r = 0; r < P + 2; r++) {
            float4 x[P + 2];
#pragma unroll
            for (int c = 0; c < P + 2; c++) x[c] = *(const float4 *)&in[((py + r) * (H + 2) + px + c) * 32 + i4];
#pragma unroll
            for (int ky = 0; ky < 3; ky++) {
                if (r - ky < 0 || r - ky >= P) continue;
#pragma unroll
                for (int o = 0; o < P; o++)
#pragma unroll
                    for (int kx = 0; kx < 3; kx++) {
                        float a = acc[r - ky][o];
                        a = fmaf(x[o + kx].x, w[ky * 3 + kx][0], a);
                        a = fmaf(x[o + kx].y, w[ky * 3 + kx][1], a);
                        a = fmaf(x[o + kx].z, w[ky * 3 + kx][2], a);
                        acc[r - ky][o] = fmaf(x[o + kx].w, w[ky * 3 + kx][3], a);
                    }
            }
        }
    }
}

// Layers 2 to 4 forward.
template <int H, int P, bool KEEP>
__device__ __forceinline__ void layer(const float *in, const float *__restrict__ kernel,
                                      const float *__restrict__ biases, float *out, unsigned char *which) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float bias = biases[lane];
    for (int patch = warp; patch < (H / P) * (H / P); patch += WARPS) {
        const int py = patch / (H / P) * P, px = patch % (H / P) * P;
        float acc[P][P];
#pragma unroll
        for (int i = 0; i < P * P; i++) acc[i / P][i % P] = bias;
        patch32<H, P>(in, kernel, py, px, lane, acc);
#pragma unroll
        for (int v = 0; v < P * P / 4; v++) {
            const int y = v / (P / 2) * 2, x = v % (P / 2) * 2;
            window<H, KEEP, H == 4>(acc[y][x], acc[y][x + 1], acc[y + 1][x], acc[y + 1][x + 1], (py + y) / 2,
                                    (px + x) / 2, lane, out, which);
        }
    }
}

// Derivative by the input of layers 2 to 4, masked by the ReLU that made that input: `d` without border, `in` with.
template <int H, int P>
__device__ __forceinline__ void layer_back(const float *spread, const float *__restrict__ turned, const float *in,
                                           float *d) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int patch = warp; patch < (H / P) * (H / P); patch += WARPS) {
        const int py = patch / (H / P) * P, px = patch % (H / P) * P;
        float acc[P][P];
#pragma unroll
        for (int i = 0; i < P * P; i++) acc[i / P][i % P] = 0.f;
        patch32<H, P>(spread, turned, py, px, lane, acc);
#pragma unroll
        for (int i = 0; i < P * P; i++) {
            const int y = py + i / P, x = px + i % P;
            const bool on = in[((y + 1) * (H + 2) + x + 1) * 32 + lane] > 0.f;
            d[(y * H + x) * 32 + lane] = on ? acc[i / P][i % P] : 0.f;
        }
    }
}

// Spreads the derivative of the pooled image to the pixels it came from; border and all other pixels are zero.
template <int H>
__device__ __forceinline__ void spread_out(const float *d, const unsigned char *which, float *spread) {
    for (int i = threadIdx.x; i < (H + 2) * (H + 2) * 32; i += THREADS) {
        const int channel = i % 32, y = i / 32 / (H + 2) - 1, x = i / 32 % (H + 2) - 1;
        float v = 0.f;
        if (y >= 0 && y < H && x >= 0 && x < H) {
            const int at = ((y / 2) * (H / 2) + x / 2) * 32 + channel;
            if (which[at] == (y % 2) * 2 + x % 2) v = d[at];
        }
        spread[i] = v;
    }
}

// Derivative by the weights of layers 2 to 4, as [out][9][in]; added to what is there unless this is the first image.
template <int H>
__device__ __forceinline__ void layer_weights(const float *in, const float *d, const unsigned char *which, float *kernel,
                                              float *bias, bool add) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int out = warp; out < 32; out += WARPS) {
        float acc[9];
#pragma unroll
        for (int k = 0; k < 9; k++) acc[k] = 0.f;
        float sum = 0.f;
        for (int v = 0; v < H * H / 4; v++) {
            const float g = d[v * 32 + out];
            if (g == 0.f) continue; // the same for all lanes
            const int place = which[v * 32 + out];
            const int y = v / (H / 2) * 2 + place / 2, x = v % (H / 2) * 2 + place % 2;
            const float *at = &in[(y * (H + 2) + x) * 32 + lane];
            sum += g;
#pragma unroll
            for (int k = 0; k < 9; k++) acc[k] = fmaf(at[((k / 3) * (H + 2) + k % 3) * 32], g, acc[k]);
        }
#pragma unroll
        for (int k = 0; k < 9; k++) {
            float *to = &kernel[(out * 9 + k) * 32 + lane];
            *to = add ? *to + acc[k] : acc[k];
        }
        if (lane == 0) bias[out] = add ? bias[out] + sum : sum;
    }
}

// Forward pass of the image in X0; the output is returned to every thread.
template <bool KEEP>
__device__ __forceinline__ float forward(float *s, const float *__restrict__ w, unsigned char *which) {
    first_layer<KEEP>(s + X0, w, s + A1, which + WHICH1);
    __syncthreads();
    layer<16, 4, KEEP>(s + A1, w + KERNEL(2), w + BIAS(2), s + A2, which + WHICH2);
    __syncthreads();
    layer<8, 2, KEEP>(s + A2, w + KERNEL(3), w + BIAS(3), s + A3, which + WHICH3);
    __syncthreads();
    layer<4, 2, KEEP>(s + A3, w + KERNEL(4), w + BIAS(4), s + A4, which + WHICH4);
    __syncthreads();
    if (threadIdx.x < 32) {
        float z = 0.f;
#pragma unroll
        for (int j = 0; j < 4; j++) z = fmaf(s[A4 + j * 32 + threadIdx.x], w[KERNEL_D + j * 32 + threadIdx.x], z);
#pragma unroll
        for (int step = 16; step > 0; step /= 2) z += __shfl_xor_sync(0xffffffffu, z, step);
        if (threadIdx.x == 0) s[SCRATCH] = z + w[BIAS_D];
    }
    __syncthreads();
    return s[SCRATCH];
}

// log(1 + e^z) - y z
__device__ __forceinline__ float cross_entropy(float z, float y) {
    return fmaxf(z, 0.f) + log1pf(expf(-fabsf(z))) - y * z;
}

// Zeroes the borders once; the interiors are always overwritten.
__device__ __forceinline__ void clear_borders(float *s) {
    zero(s + X0, 1156);
    zero(s + A1, 18 * 18 * 32 + 10 * 10 * 32 + 6 * 6 * 32);
    __syncthreads();
}

// Outputs of `count` images for each chain. Grid: (blocks of images, chains).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
predict(const float *__restrict__ weights, const float *__restrict__ images, const int *__restrict__ set_of, int count,
        int per_block, float *out) {
    extern __shared__ __align__(16) float s[];
    const int chain = blockIdx.y;
    const float *w = weights + (size_t)chain * PITCH;
    clear_borders(s);
    for (int j = 0; j < per_block; j++) {
        const int image = blockIdx.x * per_block + j;
        if (image >= count) break; // the same for the whole block
        read_image(s + X0, images + ((size_t)set_of[chain] * count + image) * 1024);
        __syncthreads();
        const float z = forward<false>(s, w, 0);
        if (threadIdx.x == 0) out[(size_t)chain * count + image] = z;
    }
}

// Summed loss of each particle over its chain's images. Grid: (particles, chains).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
losses(const float *__restrict__ particles, const float *__restrict__ images, const float *__restrict__ labels,
       const int *__restrict__ counts, int capacity, float *out) {
    extern __shared__ __align__(16) float s[];
    const int chain = blockIdx.y;
    const float *w = particles + ((size_t)chain * gridDim.x + blockIdx.x) * PITCH;
    float sum = 0.f;
    clear_borders(s);
    for (int image = 0; image < counts[chain]; image++) {
        read_image(s + X0, images + ((size_t)chain * capacity + image) * 1024);
        __syncthreads();
        sum += cross_entropy(forward<false>(s, w, 0), labels[chain * capacity + image]);
    }
    if (threadIdx.x == 0) out[(size_t)chain * gridDim.x + blockIdx.x] = sum;
}

// Loss and its derivative. Grid: (blocks of images, chains); `partial` has PITCH floats per block, `loss` one.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
gradient(const float *__restrict__ weights, const float *__restrict__ turned, const float *__restrict__ images,
         const float *__restrict__ labels, const int *__restrict__ counts, const int *__restrict__ set_of,
         const float *__restrict__ scales, int capacity, int per_block, float *partial, float *loss) {
    extern __shared__ __align__(16) float s[];
    unsigned char *which = (unsigned char *)(s + WHICH);
    const int chain = blockIdx.y, set = set_of[chain];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float *w = weights + (size_t)chain * PITCH;
    const float *t = turned + (size_t)chain * 3 * TURNED;
    float *part = partial + ((size_t)chain * gridDim.x + blockIdx.x) * PITCH;
    const int first = blockIdx.x * per_block, last = min(first + per_block, counts[set]);
    if (first >= last) {
        for (int i = threadIdx.x; i < WEIGHTS; i += THREADS) part[i] = 0.f;
        if (threadIdx.x == 0) loss[chain * gridDim.x + blockIdx.x] = 0.f;
        return;
    }
    float sum = 0.f;
    clear_borders(s);
    for (int image = first; image < last; image++) {
        const bool add = image > first;
        const float y = labels[set * capacity + image];
        read_image(s + X0, images + ((size_t)set * capacity + image) * 1024);
        __syncthreads();
        const float z = forward<true>(s, w, which);
        sum += cross_entropy(z, y);
        const float e = expf(-fabsf(z));
        const float dz = ((z >= 0.f ? 1.f : e) / (1.f + e) - y) * scales[chain];

        if (threadIdx.x < 128) {
            const float a = s[A4 + threadIdx.x];
            s[D4 + threadIdx.x] = a > 0.f ? dz * w[KERNEL_D + threadIdx.x] : 0.f;
            float *to = &part[KERNEL_D + threadIdx.x];
            *to = add ? *to + a * dz : a * dz;
            if (threadIdx.x == 0) part[BIAS_D] = add ? part[BIAS_D] + dz : dz;
        }
        __syncthreads();
        layer_weights<4>(s + A3, s + D4, which + WHICH4, part + KERNEL(4), part + BIAS(4), add);
        spread_out<4>(s + D4, which + WHICH4, s + SPREAD);
        __syncthreads();
        layer_back<4, 2>(s + SPREAD, t + 2 * TURNED, s + A3, s + D3);
        __syncthreads();
        layer_weights<8>(s + A2, s + D3, which + WHICH3, part + KERNEL(3), part + BIAS(3), add);
        spread_out<8>(s + D3, which + WHICH3, s + SPREAD);
        __syncthreads();
        layer_back<8, 2>(s + SPREAD, t + TURNED, s + A2, s + D2);
        __syncthreads();
        layer_weights<16>(s + A1, s + D2, which + WHICH2, part + KERNEL(2), part + BIAS(2), add);
        spread_out<16>(s + D2, which + WHICH2, s + SPREAD);
        __syncthreads();
        layer_back<16, 4>(s + SPREAD, t, s + A1, s + D1);
        __syncthreads();

        // First layer: a lane is an output channel, a warp every 16th window; the warps' sums are added through SPREAD.
        float acc[10];
#pragma unroll
        for (int k = 0; k < 10; k++) acc[k] = 0.f;
        for (int v = warp; v < 256; v += WARPS) {
            const float g = s[D1 + v * 32 + lane];
            const int place = which[WHICH1 + v * 32 + lane];
            const float *at = &s[X0 + (v / 16 * 2) * 34 + v % 16 * 2];
            float x[4][4];
#pragma unroll
            for (int i = 0; i < 16; i++) x[i / 4][i % 4] = at[(i / 4) * 34 + i % 4];
            acc[9] += g;
#pragma unroll
            for (int p = 0; p < 4; p++) {
                const float gp = place == p ? g : 0.f;
#pragma unroll
                for (int k = 0; k < 9; k++) acc[k] = fmaf(x[p / 2 + k / 3][p % 2 + k % 3], gp, acc[k]);
            }
        }
#pragma unroll
        for (int k = 0; k < 10; k++) s[SPREAD + (warp * 10 + k) * 32 + lane] = acc[k];
        __syncthreads();
        if (threadIdx.x < 320) {
            float total = 0.f;
            for (int v = 0; v < WARPS; v++) total += s[SPREAD + v * 320 + threadIdx.x];
            float *to = &part[threadIdx.x < 288 ? KERNEL1 + threadIdx.x : BIAS1 + threadIdx.x - 288];
            *to = add ? *to + total : total;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) loss[chain * gridDim.x + blockIdx.x] = sum * scales[chain];
}

// One weight's Adam step. `pull` adds the derivative of pull |w - prior|^2 / 2.
__device__ __forceinline__ float adam_step(float g, float *w, float *m, float *v, const float *prior, float pull,
                                           float rate, float correct) {
    const float old = *w;
    g += pull * (old - *prior);
    *m = 0.9f * *m + 0.1f * g;
    *v = 0.999f * *v + 0.001f * g * g;
    const float fresh = old - rate * *m / (sqrtf(*v * correct) + 1e-8f);
    *w = fresh;
    return fresh;
}

// Adds the partial derivatives and takes one Adam step (or, with rate 0, only sets the turned weights).
// Grid: (28, chains), 256 threads. Blocks 0 to 26 take one window place of one of the layers 2 to 4, block 27 all else.
// `grad`, where given, receives the derivative in the order of the weights.
extern "C" __global__ void __launch_bounds__(256)
adam(float *weights, float *turned, float *mean, float *square, const float *__restrict__ prior,
     const float *__restrict__ pulls, const float *__restrict__ partial, int parts, float rate, float correct,
     float *grad) {
    __shared__ float tile[32][33];
    const int chain = blockIdx.y;
    const size_t at = (size_t)chain * PITCH;
    const float *part = partial + (size_t)chain * parts * PITCH;
    const float pull = pulls[chain];
    if (blockIdx.x == 27) {
        for (int n = threadIdx.x; n < 545; n += 256) {
            // 320 of layer 1, 3 x 32 biases, 129 of the dense layer.
            const int i = n < 320 ? n : n < 416 ? BIAS(2 + (n - 320) / 32) + (n - 320) % 32 : BIAS_D + n - 416;
            if (rate == 0.f && !grad) continue;
            float g = 0.f;
            for (int p = 0; p < parts; p++) g += part[(size_t)p * PITCH + i];
            if (grad) grad[at + i] = g;
            if (rate != 0.f)
                adam_step(g, weights + at + i, mean + at + i, square + at + i, prior + at + i, pull, rate, correct);
        }
        return;
    }
    const int l = 2 + blockIdx.x / 9, k = blockIdx.x % 9;
    const int lane = threadIdx.x & 31, row = threadIdx.x >> 5;
    if (rate != 0.f || grad) {
        for (int out = row; out < 32; out += 8) {
            float g = 0.f;
            for (int p = 0; p < parts; p++) g += part[(size_t)p * PITCH + KERNEL(l) + (out * 9 + k) * 32 + lane];
            tile[out][lane] = g;
        }
    }
    __syncthreads();
    float fresh[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int in = row + 8 * j;
        const size_t i = at + KERNEL(l) + (k * 32 + in) * 32 + lane;
        fresh[j] = weights[i];
        if (grad) grad[i] = tile[lane][in];
        if (rate != 0.f)
            fresh[j] = adam_step(tile[lane][in], weights + i, mean + i, square + i, prior + i, pull, rate, correct);
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; j++) tile[row + 8 * j][lane] = fresh[j]; // [in][out]
    __syncthreads();
    float *to = turned + (size_t)chain * 3 * TURNED + (l - 2) * TURNED + (8 - k) * 1024;
    for (int out = row; out < 32; out += 8) to[out * 32 + lane] = tile[lane][out];
}

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
