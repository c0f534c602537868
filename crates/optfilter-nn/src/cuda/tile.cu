// What the tensor cores work on: tiles of half-precision numbers, and single precision as pairs of them.
//
// A number is split as x = hi + lo with hi = half(x), lo = half(x - hi): 22 bits. A product is hi hi' + hi lo' + lo hi',
// summed in single precision; what is dropped is 2^-22 of it, so that a convolution is as good as in single precision
// at several times its speed. Half precision ends at 65504, where activations saturate, and begins to lose lo below
// 1e-4; weights are therefore stored 256-fold and derivatives with a power of two chosen by their largest.
//
// Images lie in shared memory pixel by pixel with a border of one pixel: 32 channels hi (16 words), 32 channels lo (another 16,
// only where split), and 4 words apart, which puts eight neighbouring pixels into different banks.

#define WEIGHTS 28193
#define PITCH 28224
// Bias and kernel of layer 1 (1 -> 32 channels), of layers 2 to 4 (32 -> 32), of the dense layer (128 -> 1), as in Flax.
#define BIAS1 0
#define KERNEL1 32
#define BIAS(l) (320 + ((l) - 2) * 9248)
#define KERNEL(l) (BIAS(l) + 32)
#define BIAS_D 28064
#define KERNEL_D 28065
// Weights of a layer in the order in which lanes need them: [9 places of the window][2 halves of the terms][4 tiles of
// channels][32 lanes].
#define FRAGMENTS 2304
#define WEIGHT_SCALE 256.f
#define WEIGHT_UNSCALE (1.f / 256.f)
#define ALL_LANES 0xffffffffu

template <bool SPLIT> struct Pixel {
    static const int words = SPLIT ? 36 : 20;
};
// What a lane needs of a layer's weights for 16 terms x 8 channels: hi, hi, lo, lo, or hi, hi.
template <bool SPLIT> struct Fragment;
template <> struct Fragment<true> { typedef uint4 type; };
template <> struct Fragment<false> { typedef uint2 type; };

#ifndef EMULATED
// Two numbers as halves in a word.
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

__device__ __forceinline__ float low_half(unsigned v) {
    float r;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(r) : "r"(v));
    return r;
}

__device__ __forceinline__ float high_half(unsigned v) {
    float r;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(r) : "r"(v));
    return r;
}

// Four 8 x 8 matrices of halves; lane i gives the address of row i % 8 of matrix i / 8 and receives the words (i / 4, i % 4).
__device__ __forceinline__ void load_tiles(unsigned r[4], const float *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}

// The same, each matrix transposed.
__device__ __forceinline__ void load_turned(unsigned r[4], const float *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}

// d += a b: 16 rows x 16 terms times 16 terms x 8 columns.
__device__ __forceinline__ void tile_product(float d[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                             unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#endif

__device__ __forceinline__ float relu(float v) { return v > 0.f ? v : 0.f; }

__device__ __forceinline__ float saturate(float v) { return fminf(fmaxf(v, -65504.f), 65504.f); }

// Two numbers as words of halves: hi and what it leaves.
__device__ __forceinline__ void split(float low, float high, unsigned &hi, unsigned &lo) {
    low = saturate(low);
    high = saturate(high);
    hi = pack(low, high);
    lo = pack(low - low_half(hi), high - high_half(hi));
}

// A lane's weights for 16 terms x 8 channels, from the place of its first term and its channel; the next term is `apart` floats on.
__device__ __forceinline__ uint4 split_weights(const float *at, int apart) {
    uint4 r;
    split(at[0] * WEIGHT_SCALE, at[apart] * WEIGHT_SCALE, r.x, r.z);
    split(at[8 * apart] * WEIGHT_SCALE, at[9 * apart] * WEIGHT_SCALE, r.y, r.w);
    return r;
}

// The same for entry `i` of a layer's FRAGMENTS, from the layer's weights [9][in][out].
__device__ __forceinline__ uint4 split_weights_of(const float *__restrict__ kernel, int i) {
    const int tap = i / 256, half = i / 128 % 2, n = i / 32 % 4, g = i / 4 % 8, t = i % 4;
    return split_weights(&kernel[(tap * 32 + half * 16 + 2 * t) * 32 + n * 8 + g], 32);
}

__device__ __forceinline__ void product(float d[4], const unsigned up[4], const unsigned down[4], uint4 b, int part) {
    // The small products first.
    if (part == 0) tile_product(d, up[2], down[2], up[3], down[3], b.x, b.y);
    if (part == 1) tile_product(d, up[0], down[0], up[1], down[1], b.z, b.w);
    if (part == 2) tile_product(d, up[0], down[0], up[1], down[1], b.x, b.y);
}

__device__ __forceinline__ void product(float d[4], const unsigned up[4], const unsigned down[4], uint2 b, int part) {
    if (part == 2) tile_product(d, up[0], down[0], up[1], down[1], b.x, b.y);
}

// Where the tiles of an H x H image are: 16 pixels, eight neighbours and the eight below them (in a 4 x 4 image, the first and
// third row and those below). `y` and `x` of neighbour i of the upper eight.
template <int H> struct Place {
    __device__ __forceinline__ static int y(int tile, int i) { return H == 4 ? i / 4 * 2 : H == 8 ? tile * 2 : tile / 2 * 2; }
    __device__ __forceinline__ static int x(int tile, int i) { return H == 4 ? i % 4 : H == 8 ? i : tile % 2 * 8 + i; }
};

// The convolution from 32 to 32 channels: M tiles below each other from `y`, `x` (of this lane's neighbour lane % 8), N tiles of
// channels from n0, added to d.
//
// For one column of the window, rows of pixels are loaded once and used by three window places. A few products are added by the
// tensor cores, which round towards zero, and their sums in single precision.
template <int H, int M, int N, bool SPLIT>
__device__ __forceinline__ void convolve(const float *in, const typename Fragment<SPLIT>::type *kernel, int y, int x, int n0,
                                         float d[M][N][4]) {
    const int lane = threadIdx.x & 31, row_words = (H + 2) * Pixel<SPLIT>::words;
    // Lanes 8 to 15 name the second eight terms; 16 to 31 the lo parts, or the next row.
    const float *at = in + (y * (H + 2) + x) * Pixel<SPLIT>::words + (lane >> 3 & 1) * 4 + (lane >> 4) * (SPLIT ? 16 : row_words);
    // More chains of sums where one tile alone would wait for itself.
    const int CHAINS = M * N > 1 ? 1 : 3;
#pragma unroll
    for (int step = 0; step < 6; step++) {
        const int kx = step / 2, half = step % 2;
        const float *from = at + kx * Pixel<SPLIT>::words + half * 8;
        unsigned rows[2 * M + 2][4];
        if (SPLIT) {
#pragma unroll
            for (int r = 0; r < 2 * M + 2; r++) load_tiles(rows[r], from + r * row_words);
        } else {
#pragma unroll
            for (int r = 0; r < 2 * M + 2; r += 2) {
                unsigned two[4];
                load_tiles(two, from + r * row_words);
                rows[r][0] = two[0], rows[r][1] = two[1], rows[r + 1][0] = two[2], rows[r + 1][1] = two[3];
            }
        }
        float sum[CHAINS][M][N][4];
#pragma unroll
        for (int i = 0; i < CHAINS * M * N * 4; i++) sum[i / (4 * M * N)][i / (4 * N) % M][i / 4 % N][i % 4] = 0.f;
#pragma unroll
        for (int ky = 0; ky < 3; ky++) {
            typename Fragment<SPLIT>::type b[N];
#pragma unroll
            for (int n = 0; n < N; n++) b[n] = kernel[(((ky * 3 + kx) * 2 + half) * 4 + n0 + n) * 32 + lane];
#pragma unroll
            for (int part = SPLIT ? 0 : 2; part < 3; part++)
#pragma unroll
                for (int m = 0; m < M; m++)
#pragma unroll
                    for (int n = 0; n < N; n++)
                        product(sum[ky % CHAINS][m][n], rows[2 * m + ky], rows[2 * m + ky + 1], b[n], part);
        }
#pragma unroll
        for (int i = 0; i < M * N * 4; i++)
#pragma unroll
            for (int c = 0; c < CHAINS; c++) d[i / (4 * N)][i / 4 % N][i % 4] += sum[c][i / (4 * N)][i / 4 % N][i % 4];
    }
}

// ReLU and store of a pooled value, and of the place of the maximum; `out` is bordered, or, behind the last layer, a plain list.
template <int H, bool SPLIT, bool KEEP>
__device__ __forceinline__ void window(float a, float b, float c, float d, int wy, int wx, int channel, float *out,
                                       unsigned char *which) {
    const int half = H / 2;
    float best = a;
    int place = 0;
    if (b > best) { best = b; place = 1; }
    if (c > best) { best = c; place = 2; }
    if (d > best) { best = d; place = 3; }
    const float v = relu(best);
    if (KEEP) which[(wy * half + wx) * 32 + channel] = (unsigned char)place;
    if (H == 4) {
        out[(wy * half + wx) * 32 + channel] = v;
    } else {
        unsigned hi, lo;
        split(v, 0.f, hi, lo);
        unsigned short *to = (unsigned short *)&out[((wy + 1) * (half + 2) + wx + 1) * Pixel<SPLIT>::words];
        to[channel] = (unsigned short)hi;
        if (SPLIT) to[32 + channel] = (unsigned short)lo;
    }
}

// The same for a tile. Two neighbouring lanes of a row hold two pixels of each of two channels; they exchange, and each has a window of
// one channel. `y`, `x`: this lane's upper pixel.
template <int H, bool SPLIT, bool KEEP>
__device__ __forceinline__ void pool_tile(const float d[4], int y, int x, int channel, float *out, unsigned char *which) {
    const bool odd = threadIdx.x & 4;
    const float up = __shfl_xor_sync(ALL_LANES, odd ? d[0] : d[1], 4);
    const float down = __shfl_xor_sync(ALL_LANES, odd ? d[2] : d[3], 4);
    const float my_up = (odd ? d[1] : d[0]), my_down = (odd ? d[3] : d[2]);
    const float s = WEIGHT_UNSCALE;
    window<H, SPLIT, KEEP>(s * (odd ? up : my_up), s * (odd ? my_up : up), s * (odd ? down : my_down), s * (odd ? my_down : down),
                           y / 2, x / 2, channel + odd, out, which);
}

// Layers 2 to 4 forward.
template <int H, int M, int N, int WARPS, bool SPLIT, bool KEEP>
__device__ __forceinline__ void layer(const float *in, const typename Fragment<SPLIT>::type *kernel,
                                      const float *__restrict__ biases, float *out, unsigned char *which) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    // Tiles below each other are H / 8 apart.
    const int across = H == 16 ? 2 : 1, groups = H * H / 16 / M;
    for (int job = warp; job < groups * (4 / N); job += WARPS) {
        const int group = job % groups, n0 = job / groups * N, tile = group / across * across * M + group % across;
        float d[M][N][4];
#pragma unroll
        for (int i = 0; i < M * N * 4; i++)
            d[i / (4 * N)][i / 4 % N][i % 4] = WEIGHT_SCALE * biases[(n0 + i / 4 % N) * 8 + 2 * t + i % 2];
        convolve<H, M, N, SPLIT>(in, kernel, Place<H>::y(tile, lane & 7), Place<H>::x(tile, lane & 7), n0, d);
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++)
                pool_tile<H, SPLIT, KEEP>(d[m][n], Place<H>::y(tile, g) + 2 * m, Place<H>::x(tile, g), (n0 + n) * 8 + 2 * t, out,
                                          which);
    }
}

// log(1 + e^z) - y z
__device__ __forceinline__ float cross_entropy(float z, float y) {
    return fmaxf(z, 0.f) + log1pf(expf(-fabsf(z))) - y * z;
}
