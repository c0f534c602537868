// Loss and derivative: one block takes one image at a time forward and back and adds to its own partial derivative, which adam.cu
// sums in a fixed order: no atomics on sums, the same result every time.
//
// The derivative by a pooled image is spread to the pixels it came from. From there, the derivative by a convolution's input is a
// convolution with the turned weights, and that by its weights a product over all pixels. Both read the same two images in shared
// memory, so there is no barrier between them. Before it is split into halves, a derivative is scaled by a power of two that brings
// the image's largest to 2^13.

// Derivatives by pooled images: 40 floats per pixel, again to keep pixels in different banks. That of the first
// layer's output takes the place of the others, which are used up by then.
#define APART 40
#define D1 FORWARD_FLOATS
#define D2 D1
#define D3 (D2 + 64 * APART)
#define D4 (D3 + 16 * APART)
#define SPREAD2 (D1 + 256 * APART)
#define SPREAD3 (SPREAD2 + 18 * 18 * 36)
#define SPREAD4 (SPREAD3 + 10 * 10 * 36)
#define WHICH (SPREAD4 + 6 * 6 * 36)
#define GRADIENT_FLOATS (WHICH + 2720)
// The largest derivative by the output of layers 2 to 4, as the bits of a float.
#define LARGEST(l) (SCRATCH + (l))

__device__ __forceinline__ void note_largest(float *s, int l, float largest) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, step));
    if ((threadIdx.x & 31) == 0) atomicMax((unsigned *)&s[LARGEST(l)], __float_as_uint(largest));
}

// A power of two that brings numbers up to `largest` below 2^14; the inverse is one, too.
__device__ __forceinline__ float scale_for(float largest) {
    const int exponent = (int)(__float_as_uint(largest) >> 23) - 127;
    const int up = min(max(13 - exponent, -60), 60);
    return __uint_as_float((unsigned)(up + 127) << 23);
}

// Spreads the derivative of the pooled image to the pixels it came from, split into halves; all other pixels are zero.
template <int H>
__device__ __forceinline__ void spread_out(const float *d, const unsigned char *which, float scale, float *spread) {
    for (int i = threadIdx.x; i < H * H * 4; i += THREADS) {
        const int pair = i % 16, v = i / 16;
        const float2 g = *(const float2 *)&d[v * APART + 2 * pair];
        const unsigned first = which[v * 32 + 2 * pair], second = which[v * 32 + 2 * pair + 1];
        unsigned hi, lo;
        split(g.x * scale, g.y * scale, hi, lo);
        unsigned *to = (unsigned *)&spread[((v / (H / 2) * 2 + 1) * (H + 2) + v % (H / 2) * 2 + 1) * 36 + pair];
#pragma unroll
        for (unsigned p = 0; p < 4; p++) {
            const unsigned mask = (first == p ? 0xffffu : 0u) | (second == p ? 0xffff0000u : 0u);
            const int at = (p / 2 * (H + 2) + p % 2) * 36;
            to[at] = hi & mask;
            to[at + 16] = lo & mask;
        }
    }
}

// Derivative by the input of layers 2 to 4, masked by the ReLU that made that input: `d` without border.
template <int H, int M, int N>
__device__ __forceinline__ void layer_back(const float *spread, const uint4 *turned, float unscale, const float *in, float *d,
                                           float *s, int l) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int across = H == 16 ? 2 : 1, groups = H * H / 16 / M;
    float largest = 0.f;
    // From the last warp on: the first ones have the weights' derivative to do.
    for (int job = WARPS - 1 - warp; job < groups * (4 / N); job += WARPS) {
        const int group = job % groups, n0 = job / groups * N, tile = group / across * across * M + group % across;
        float acc[M][N][4];
#pragma unroll
        for (int i = 0; i < M * N * 4; i++) acc[i / (4 * N)][i / 4 % N][i % 4] = 0.f;
        convolve<H, M, N, true>(spread, turned, Place<H>::y(tile, lane & 7), Place<H>::x(tile, lane & 7), n0, acc);
#pragma unroll
        for (int i = 0; i < M * N * 2; i++) {
            const int m = i / (2 * N), n = i / 2 % N, lower = i % 2, channel = (n0 + n) * 8 + 2 * t;
            const int y = Place<H>::y(tile, g) + 2 * m + lower, x = Place<H>::x(tile, g);
            // The halves are not negative: any bit says that the ReLU was on.
            const unsigned on = ((const unsigned *)in)[((y + 1) * (H + 2) + x + 1) * 36 + channel / 2];
            float2 v;
            v.x = on & 0xffffu ? acc[m][n][2 * lower] * unscale : 0.f;
            v.y = on >> 16 ? acc[m][n][2 * lower + 1] * unscale : 0.f;
            largest = fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y)));
            *(float2 *)&d[(y * H + x) * APART + channel] = v;
        }
    }
    if (l > 1) note_largest(s, l, largest);
}

// Derivative by the weights of layers 2 to 4: rows are input channels, columns output channels, terms pixels. Twelve warps: one of
// three columns of the window, half of the input channels, half of the output channels each. `kernel` keeps the order of
// the tiles: [9][2 x 16 inputs][4 x 8 outputs][32 lanes].
template <int H>
__device__ __forceinline__ void layer_weights(const float *in, const float *spread, float scale, float unscale, float4 *kernel,
                                              bool add) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (warp >= 12) return;
    const int kx = warp % 3, rows = warp / 3 % 2, pair = warp / 6;
    float acc[3][2][4];
#pragma unroll
    for (int i = 0; i < 6; i++) {
        float4 old = make_float4(0.f, 0.f, 0.f, 0.f);
        if (add) old = kernel[(((i / 2 * 3 + kx) * 2 + rows) * 4 + pair * 2 + i % 2) * 32 + lane];
        float *a = acc[i / 2][i % 2];
        a[0] = old.x * scale, a[1] = old.y * scale, a[2] = old.z * scale, a[3] = old.w * scale;
    }
    // Lanes 8 to 15 name the second eight channels (or the lower pixels), 16 to 31 the lo parts (or the second tile).
    const int i = lane & 7, second = lane >> 3 & 1, third = lane >> 4;
#pragma unroll 2
    for (int tile = 0; tile < H * H / 16; tile++) {
        const int pixel = Place<H>::y(tile, i) * (H + 2) + Place<H>::x(tile, i);
        const float *a_at = in + (pixel + kx) * 36 + rows * 8 + second * 4 + third * 16;
        const float *b_at = spread + (pixel + (second + 1) * (H + 2) + 1) * 36 + pair * 8 + third * 4;
        unsigned a[4][4], b_hi[4], b_lo[4];
        load_turned(b_hi, b_at);
        load_turned(b_lo, b_at + 16);
#pragma unroll
        for (int r = 0; r < 4; r++) load_turned(a[r], a_at + r * (H + 2) * 36);
#pragma unroll
        for (int part = 0; part < 3; part++)
#pragma unroll
            for (int ky = 0; ky < 3; ky++)
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    const int p = part == 0 ? 2 : 0;
                    const unsigned *b = part == 1 ? b_lo : b_hi;
                    tile_product(acc[ky][n], a[ky][p], a[ky][p + 1], a[ky + 1][p], a[ky + 1][p + 1], b[2 * n], b[2 * n + 1]);
                }
    }
#pragma unroll
    for (int j = 0; j < 6; j++) {
        const float *a = acc[j / 2][j % 2];
        kernel[(((j / 2 * 3 + kx) * 2 + rows) * 4 + pair * 2 + j % 2) * 32 + lane] =
            make_float4(a[0] * unscale, a[1] * unscale, a[2] * unscale, a[3] * unscale);
    }
}

// Derivative by the biases, one warp.
__device__ __forceinline__ void layer_biases(const float *d, int windows, float *bias, bool add) {
    const int lane = threadIdx.x & 31;
    if (threadIdx.x >> 5 != 12) return;
    float sum = add ? bias[lane] : 0.f;
#pragma unroll 4
    for (int v = 0; v < windows; v++) sum += d[v * APART + lane];
    bias[lane] = sum;
}

// All of one of the layers 2 to 4: from the derivative by its output to that by its input. M, N: tiles per warp.
template <int H, int M, int N>
__device__ __forceinline__ void layer_all(float *s, int l, const float *in, const float *d, const unsigned char *which,
                                          float *spread, const uint4 *turned, float *part, float *d_in, bool add) {
    const float scale = scale_for(s[LARGEST(l)]), unscale = 1.f / scale;
    spread_out<H>(d, which, scale, spread);
    layer_biases(d, H * H / 4, part + BIAS(l), add);
    __syncthreads();
    layer_weights<H>(in, spread, scale, unscale, (float4 *)(part + KERNEL(l)), add);
    layer_back<H, M, N>(spread, turned, unscale * WEIGHT_UNSCALE, in, d_in, s, l - 1);
    __syncthreads();
}

// First layer: a lane is an output channel, a warp every 16th window; the warps' sums are added through shared memory.
__device__ __forceinline__ void first_weights(float *s, const unsigned char *which, float *part, bool add) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    float acc[10];
#pragma unroll
    for (int k = 0; k < 10; k++) acc[k] = 0.f;
#pragma unroll 4
    for (int v = warp; v < 256; v += WARPS) {
        const float g = s[D1 + v * APART + lane];
        const int place = which[WHICH1 + v * 32 + lane];
        const float *at = &s[X0 + (v / 16 * 2 + place / 2) * 34 + v % 16 * 2 + place % 2];
        acc[9] += g;
#pragma unroll
        for (int k = 0; k < 9; k++) acc[k] = fmaf(at[k / 3 * 34 + k % 3], g, acc[k]);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 10; k++) s[D1 + (warp * 10 + k) * 32 + lane] = acc[k];
    __syncthreads();
    if (threadIdx.x < 320) {
        float *to = &part[threadIdx.x < 288 ? KERNEL1 + threadIdx.x : BIAS1 + threadIdx.x - 288];
        float total = add ? *to : 0.f;
#pragma unroll
        for (int v = 0; v < WARPS; v++) total += s[D1 + v * 320 + threadIdx.x];
        *to = total;
    }
}

// Grid: (blocks of images, chains); `partial` has PITCH floats per block, `loss` one.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
gradient(const float *__restrict__ weights, const uint4 *__restrict__ fragments, const float *__restrict__ images,
         const float *__restrict__ labels, const int *__restrict__ counts, const int *__restrict__ set_of,
         const float *__restrict__ scales, int capacity, int per_block, float *partial, float *loss) {
    extern __shared__ __align__(16) float s[];
    unsigned char *which = (unsigned char *)(s + WHICH);
    const int chain = blockIdx.y, set = set_of[chain];
    const float *w = weights + (size_t)chain * PITCH;
    const uint4 *f = fragments + (size_t)chain * 6 * FRAGMENTS;
    float *part = partial + ((size_t)chain * gridDim.x + blockIdx.x) * PITCH;
    const int first = blockIdx.x * per_block, last = min(first + per_block, counts[set]);
    if (first >= last) {
        zero(part, PITCH);
        if (threadIdx.x == 0) loss[chain * gridDim.x + blockIdx.x] = 0.f;
        return;
    }
    float sum = 0.f;
    zero(s, GRADIENT_FLOATS); // the borders; the interiors are always overwritten
    __syncthreads();
    for (int image = first; image < last; image++) {
        const bool add = image > first;
        const float y = labels[set * capacity + image];
        read_image(s + X0, images + ((size_t)set * capacity + image) * 1024);
        if (threadIdx.x < 3) s[LARGEST(2 + threadIdx.x)] = 0.f;
        __syncthreads();
        const float z = forward<true>(s, w, f, 2 * FRAGMENTS, which);
        sum += cross_entropy(z, y);
        const float e = expf(-fabsf(z));
        const float dz = ((z >= 0.f ? 1.f : e) / (1.f + e) - y) * scales[chain];

        if (threadIdx.x < 128) {
            const float a = s[A4 + threadIdx.x], d = a > 0.f ? dz * w[KERNEL_D + threadIdx.x] : 0.f;
            s[D4 + threadIdx.x / 32 * APART + threadIdx.x % 32] = d;
            note_largest(s, 4, fabsf(d));
            float *to = &part[KERNEL_D + threadIdx.x];
            *to = add ? *to + a * dz : a * dz;
            if (threadIdx.x == 0) part[BIAS_D] = add ? part[BIAS_D] + dz : dz;
        }
        __syncthreads();
        layer_all<4, 1, 1>(s, 4, s + A3, s + D4, which + WHICH4, s + SPREAD4, f + 5 * FRAGMENTS, part, s + D3, add);
        layer_all<8, 1, 1>(s, 3, s + A2, s + D3, which + WHICH3, s + SPREAD3, f + 3 * FRAGMENTS, part, s + D2, add);
        layer_all<16, 2, 2>(s, 2, s + A1, s + D2, which + WHICH2, s + SPREAD2, f + FRAGMENTS, part, s + D1, add);
        first_weights(s, which, part, add);
        __syncthreads();
    }
    if (threadIdx.x == 0) loss[chain * gridDim.x + blockIdx.x] = sum * scales[chain];
}
