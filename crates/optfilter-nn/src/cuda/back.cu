// The way back through one layer: derivatives by its input, its weights and its biases.
//
// The derivative by a pooled image is spread to the pixels it came from. From there, the derivative by a convolution's input is a
// convolution with the turned weights, and that by its weights a product over all pixels. Before it is split into halves, a
// derivative is scaled by a power of two that brings the image's largest to 2^13.

// Derivatives by pooled images: 40 floats per pixel, again to keep pixels in different banks. That of the first
// layer's output takes the place of the others, which are used up by then.
#define APART 40
#define D1 COMMON_FLOATS
#define D2 D1
#define D3 (D2 + 64 * APART)
#define D4 (D3 + 16 * APART)
#define SPREAD2 (D1 + 256 * APART)
#define SPREAD3 (SPREAD2 + 18 * 18 * 36)
#define SPREAD4 (SPREAD3 + 10 * 10 * 36)
#define WHICH (SPREAD4 + 6 * 6 * 36)
#define SUMS (WHICH + 2720)
// Weights of the layer at work, and what tells that they are there. In the forward pass, those of layer 3 lie where the derivatives
// will be.
#define LAYER (SUMS + WARPS * 32)
#define GATE (SCRATCH + 8)
#define GATE3 (SCRATCH + 10)
#define GRADIENT_FLOATS (LAYER + FRAGMENTS * 4)
// The largest derivative by the output of layers 2 to 4, as the bits of a float.
#define LARGEST(l) (SCRATCH + (l))

// The layer of H x H images: its number, its input, the derivative by its output, places of maxima, and the spread derivative.
template <int H> struct Layer {
    static const int l = H == 16 ? 2 : H == 8 ? 3 : 4, in = H == 16 ? A1 : H == 8 ? A2 : A3, d = H == 16 ? D2 : H == 8 ? D3 : D4;
    static const int which = H == 16 ? WHICH2 : H == 8 ? WHICH3 : WHICH4, spread = H == 16 ? SPREAD2 : H == 8 ? SPREAD3 : SPREAD4;
    // Where the derivative by its input goes, and its kernel.
    static const int d_in = H == 16 ? D1 : H == 8 ? D2 : D3, kernel = KERNEL(l);
};

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

// Spreads the derivative of the pooled image to the pixels it came from, split into halves; all other pixels are zero. Each warp
// leaves its sums by channel.
template <int H>
__device__ __forceinline__ void spread_out(float *s) {
    const float *d = s + Layer<H>::d, scale = scale_for(s[LARGEST(Layer<H>::l)]);
    const unsigned char *which = (const unsigned char *)(s + WHICH) + Layer<H>::which;
    const int pair = threadIdx.x % 16;
    float2 sum;
    sum.x = 0.f, sum.y = 0.f;
    for (int v = threadIdx.x / 16; v < H * H / 4; v += THREADS / 16) {
        const float2 g = *(const float2 *)&d[v * APART + 2 * pair];
        const unsigned both = *(const unsigned short *)&which[v * 32 + 2 * pair], first = both & 0xffu, second = both >> 8;
        unsigned hi, lo;
        sum.x += g.x, sum.y += g.y;
        split(g.x * scale, g.y * scale, hi, lo);
        unsigned *to = (unsigned *)&s[Layer<H>::spread + ((v / (H / 2) * 2 + 1) * (H + 2) + v % (H / 2) * 2 + 1) * 36 + pair];
#pragma unroll
        for (unsigned p = 0; p < 4; p++) {
            const unsigned mask = (first == p ? 0xffffu : 0u) | (second == p ? 0xffff0000u : 0u);
            const int at = (p / 2 * (H + 2) + p % 2) * 36;
            to[at] = hi & mask;
            to[at + 16] = lo & mask;
        }
    }
    sum.x += __shfl_xor_sync(ALL_LANES, sum.x, 16);
    sum.y += __shfl_xor_sync(ALL_LANES, sum.y, 16);
    if (threadIdx.x % 32 < 16) *(float2 *)&s[SUMS + threadIdx.x / 32 * 32 + 2 * pair] = sum;
}

// Derivative by the input of layers 2 to 4, masked by the ReLU that made that input: `d` without border.
template <int H, int N>
__device__ __forceinline__ void layer_back(float *s) {
    const float unscale = WEIGHT_UNSCALE / scale_for(s[LARGEST(Layer<H>::l)]);
    const unsigned *in = (const unsigned *)(s + Layer<H>::in);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int M = H == 4 ? 1 : 2, pairs = Tile<H>::count / M;
    float largest = 0.f;
    // From the last warp on: the first ones come from the weights' derivative.
    for (int job = WARPS - 1 - warp; job < pairs * (4 / N); job += WARPS) {
        const int tile = job % pairs * M, n0 = job / pairs * N;
        float acc[M][N][4];
#pragma unroll
        for (int i = 0; i < M * N * 4; i++) acc[i / (4 * N)][i / 4 % N][i % 4] = 0.f;
        convolve<H, M, N, true>(s + Layer<H>::spread, (const uint4 *)(s + LAYER), tile, n0, acc);
#pragma unroll
        for (int i = 0; i < M * N * 2; i++) {
            const int m = i / (2 * N), n = i / 2 % N, group = i % 2, channel = (n0 + n) * 8 + 2 * t;
            const int y = tile + m + Tile<H>::y(group, g), x = Tile<H>::x(group, g);
            // The halves are not negative: any bit says that the ReLU was on.
            const unsigned on = in[((y + 1) * (H + 2) + x + 1) * 36 + channel / 2];
            float2 v;
            v.x = on & 0xffffu ? acc[m][n][2 * group] * unscale : 0.f;
            v.y = on >> 16 ? acc[m][n][2 * group + 1] * unscale : 0.f;
            largest = fmaxf(largest, fmaxf(fabsf(v.x), fabsf(v.y)));
            *(float2 *)&s[Layer<H>::d_in + (y * H + x) * APART + channel] = v;
        }
    }
    if (H < 16) note_largest(s, Layer<H>::l - 1, largest);
}

// Derivative by the weights of layers 2 to 4: rows are input channels, columns output channels, terms pixels. Twelve jobs: one of
// three columns of the window, half of the input channels, half of the output channels each; tiles of the input pass by, and each
// is used for three rows of the window. `kernel` keeps the order of the tiles: [9][2 x 16 inputs][4 x 8 outputs][32 lanes].
struct WeightsPlace {
    int kx, rows, pair;
    __device__ __forceinline__ WeightsPlace(int job) : kx(job % 3), rows(job / 3 % 2), pair(job / 6) {}
    // Of window row j / 2 and output tile j % 2.
    __device__ __forceinline__ int at(int j) const {
        return (((j / 2 * 3 + kx) * 2 + rows) * 4 + pair * 2 + j % 2) * 32 + (threadIdx.x & 31);
    }
};

template <int H>
__device__ __forceinline__ void layer_weights(const float *s, int job, float *part, bool add) {
    const WeightsPlace place(job);
    const float unscale = 1.f / scale_for(s[LARGEST(Layer<H>::l)]);
    float4 *kernel = (float4 *)(part + Layer<H>::kernel);
    const int lane = threadIdx.x & 31, i = lane & 7, second = lane >> 3 & 1, third = lane >> 4;
    float acc[6][4];
    float4 old[6];
#pragma unroll
    for (int j = 0; j < 6; j++) {
        old[j] = make_float4(0.f, 0.f, 0.f, 0.f);
        if (add) old[j] = kernel[place.at(j)];
        acc[j][0] = acc[j][1] = acc[j][2] = acc[j][3] = 0.f;
    }
    // Of the input, lanes 8 to 15 and 24 to 31 name the second eight channels, 16 to 31 the second group of pixels; of
    // the derivative, the second group of pixels and the second tile.
    const float *a_at = s + Layer<H>::in + (Tile<H>::pixel(third, i) + place.kx) * 36 + place.rows * 8 + second * 4;
    const float *b_at = s + Layer<H>::spread + (Tile<H>::pixel(second, i) + H + 3) * 36 + place.pair * 8 + third * 4;
    unsigned a[3][2][4];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        load_turned(a[r][0], a_at + r * (H + 2) * 36);
        load_turned(a[r][1], a_at + r * (H + 2) * 36 + 16);
    }
#pragma unroll
    for (int tile = 0; tile < Tile<H>::count; tile++) {
        unsigned b[2][4];
        load_turned(a[(tile + 2) % 3][0], a_at + (tile + 2) * (H + 2) * 36);
        load_turned(a[(tile + 2) % 3][1], a_at + (tile + 2) * (H + 2) * 36 + 16);
        load_turned(b[0], b_at + tile * (H + 2) * 36);
        load_turned(b[1], b_at + tile * (H + 2) * 36 + 16);
#pragma unroll
        for (int part = 0; part < 3; part++)
#pragma unroll
            for (int j = 0; j < 6; j++) {
                const unsigned *p = a[(tile + j / 2) % 3][part == 0 ? 1 : 0], *q = b[part == 1 ? 1 : 0] + j % 2 * 2;
                tile_product(acc[j], p[0], p[1], p[2], p[3], q[0], q[1]);
            }
    }
#pragma unroll
    for (int j = 0; j < 6; j++)
        kernel[place.at(j)] = make_float4(fmaf(acc[j][0], unscale, old[j].x), fmaf(acc[j][1], unscale, old[j].y),
                                          fmaf(acc[j][2], unscale, old[j].z), fmaf(acc[j][3], unscale, old[j].w));
}

// From the derivative by a layer's output to that by its input. N: tiles of channels per warp. Its turned weights are the n-th that
// were fetched; while they are on their way, the derivative by the weights of the layer behind is taken. The last warp keeps the
// biases' derivatives, a lane each.
template <int H, int N>
__device__ __forceinline__ void layer_all(float *s, unsigned n, float *part, bool add, float &bias) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    spread_out<H>(s);
    __syncthreads();
    if (H > 4 && warp < 12) layer_weights<H == 16 ? 8 : 4>(s, warp, part, add);
    if (warp == WARPS - 1) {
#pragma unroll
        for (int v = 0; v < WARPS; v++) bias += s[SUMS + v * 32 + lane];
    }
    await(s + GATE, n);
    layer_back<H, N>(s);
    __syncthreads();
}

// First layer: a lane is an output channel, each of four warps takes 64 windows, and leaves its sums (288 weights, 32 biases) in the
// place of their derivatives.
__device__ __forceinline__ void first_weights(float *s, int quarter, const unsigned char *which) {
    const int lane = threadIdx.x & 31;
    float acc[10];
#pragma unroll
    for (int k = 0; k < 10; k++) acc[k] = 0.f;
#pragma unroll 4
    for (int v = quarter * 64; v < quarter * 64 + 64; v++) {
        const float g = s[D1 + v * APART + lane];
        const int place = which[WHICH1 + v * 32 + lane];
        const float *at = &s[X0 + (v / 16 * 2 + place / 2) * ROW + v % 16 * 2 + place % 2];
        acc[9] += g;
#pragma unroll
        for (int k = 0; k < 9; k++) acc[k] = fmaf(at[k / 3 * ROW + k % 3], g, acc[k]);
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 10; k++) s[D1 + quarter * 64 * APART + k * 32 + lane] = acc[k];
}
