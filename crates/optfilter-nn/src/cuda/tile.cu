// What the tensor cores work on: tiles of half-precision numbers, and single precision as pairs of them.
//
// A number is split as x = hi + lo with hi = half(x), lo = half(x - hi): 22 bits. A product is hi hi' + hi lo' + lo hi',
// summed in single precision; what is dropped is 2^-22 of it, so that a convolution is as good as in single precision
// at several times its speed. Half precision ends at 65504, where activations saturate, and begins to lose lo below
// 1e-4; weights are therefore stored 256-fold and derivatives with a power of two chosen by their largest.
//
// Images lie in shared memory pixel by pixel with a border of one pixel: 32 channels hi (16 words), 32 channels lo (another 16,
// only where split), and 4 words apart, which puts eight neighbouring pixels into different banks.

// With -DSTAGES the first block notes the clock after each stage and prints the cycles between them.
#ifdef STAGES
__device__ long long stage_clocks[32];
#define STAGE(i) \
    if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) stage_clocks[i] = clock64()
#define PRINT_STAGES(n) \
    if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) \
        for (int i = 1; i < n; i++) printf("stage %d: %lld\n", i, stage_clocks[i] - stage_clocks[i - 1])
#else
#define STAGE(i)
#define PRINT_STAGES(n)
#endif

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

// A copy of a layer's weights to shared memory in the background, asked for by one thread and awaited by all. A gate counts copies;
// the n-th (from 0) is awaited with n.
__device__ __forceinline__ void open_gate(float *gate) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"((unsigned)__cvta_generic_to_shared(gate)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void fetch(float *to, const uint4 *from, float *gate) {
    if (threadIdx.x != 0) return;
    const unsigned at = (unsigned)__cvta_generic_to_shared(to), bar = (unsigned)__cvta_generic_to_shared(gate);
    // What was written there before must not come later.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(FRAGMENTS * 16) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at),
                 "l"(__cvta_generic_to_global(from)), "r"(FRAGMENTS * 16), "r"(bar)
                 : "memory");
}
__device__ __forceinline__ void await(float *gate, unsigned n) {
    unsigned done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"((unsigned)__cvta_generic_to_shared(gate)), "r"(n & 1u)
                     : "memory");
    } while (!done);
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

// d += a b with a = (hi, lo), in three parts, the small ones first; or, not split, in one.
__device__ __forceinline__ void product(float d[4], const unsigned a[2][4], uint4 b, int part) {
    const unsigned *p = a[part == 0 ? 1 : 0];
    tile_product(d, p[0], p[1], p[2], p[3], part == 1 ? b.z : b.x, part == 1 ? b.w : b.y);
}
__device__ __forceinline__ void product(float d[4], const unsigned a[][4], uint2 b, int) {
    tile_product(d, a[0][0], a[0][1], a[0][2], a[0][3], b.x, b.y);
}

// The tiles of an H x H image, 16 pixels each: two groups of eight neighbours, chosen so that the tile one window row further down is
// the tile one image row further down. A tile loaded once then serves three rows of the window as it is.
//
//   16 x 16: tile i is row i;  8 x 8: rows i and i + 4;  4 x 4: group 0 is rows 0 and 2, group 1 rows 1 and 3.
template <int H> struct Tile {
    static const int count = H * H / 16;
    __device__ __forceinline__ static int y(int group, int i) { return H == 16 ? 0 : H == 8 ? 4 * group : i / 4 * 2 + group; }
    __device__ __forceinline__ static int x(int group, int i) { return H == 16 ? 8 * group + i : H == 8 ? i : i % 4; }
    // In the bordered image, of tile 0 moved by the first place of the window.
    __device__ __forceinline__ static int pixel(int group, int i) { return y(group, i) * (H + 2) + x(group, i); }
};

// The convolution from 32 to 32 channels: M tiles from `tile` on, N tiles of channels from n0 on, added to d.
//
// Where split, a few products are added by the tensor cores, which round towards zero, and their sums in single precision.
template <int H, int M, int N, bool SPLIT>
__device__ __forceinline__ void convolve(const float *in, const typename Fragment<SPLIT>::type *kernel, int tile, int n0,
                                         float d[M][N][4]) {
    const int lane = threadIdx.x & 31, row_words = (H + 2) * Pixel<SPLIT>::words;
    // Lanes 8 to 15 and 24 to 31 name the second group of pixels, 16 to 31 the second eight terms.
    const float *at =
        in + tile * row_words + Tile<H>::pixel(lane >> 3 & 1, lane & 7) * Pixel<SPLIT>::words + (lane >> 4) * 4;
    // More chains of sums where few tiles would wait for each other.
    const int CHAINS = M * N > 2 ? 1 : 3;
#pragma unroll
    for (int step = 0; step < 6; step++) {
        const int kx = step / 2, half = step % 2;
        typename Fragment<SPLIT>::type b[3][N];
#pragma unroll
        for (int i = 0; i < 3 * N; i++) b[i / N][i % N] = kernel[(((i / N * 3 + kx) * 2 + half) * 4 + n0 + i % N) * 32 + lane];
        unsigned a[M + 2][SPLIT ? 2 : 1][4];
#pragma unroll
        for (int r = 0; r < M + 2; r++)
#pragma unroll
            for (int lo = 0; lo < (SPLIT ? 2 : 1); lo++)
                load_tiles(a[r][lo], at + r * row_words + kx * Pixel<SPLIT>::words + half * 8 + lo * 16);
        if (!SPLIT) {
#pragma unroll
            for (int i = 0; i < 3 * M * N; i++) product(d[i / N % M][i % N], a[i / N % M + i / (M * N)], b[i / (M * N)][i % N], 2);
            continue;
        }
        float sum[CHAINS][M][N][4];
#pragma unroll
        for (int i = 0; i < CHAINS * M * N * 4; i++) sum[i / (4 * M * N)][i / (4 * N) % M][i / 4 % N][i % 4] = 0.f;
#pragma unroll
        for (int ky = 0; ky < 3; ky++)
#pragma unroll
            for (int part = 0; part < 3; part++)
#pragma unroll
                for (int i = 0; i < M * N; i++) product(sum[ky % CHAINS][i / N][i % N], a[i / N + ky], b[ky][i % N], part);
#pragma unroll
        for (int i = 0; i < M * N * 4; i++)
#pragma unroll
            for (int c = 0; c < CHAINS; c++) d[i / (4 * N)][i / 4 % N][i % 4] += sum[c][i / (4 * N)][i / 4 % N][i % 4];
    }
}

// ReLU and store of a pooled value; `out` is bordered, or, behind the last layer, a plain list.
template <int H, bool SPLIT>
__device__ __forceinline__ void store(float best, int wy, int wx, int channel, float *out) {
    const int half = H / 2;
    const float v = fminf(relu(best), 65504.f);
    if (H == 4) {
        out[(wy * half + wx) * 32 + channel] = relu(best);
        return;
    }
    const unsigned hi = pack(v, 0.f);
    unsigned short *to = (unsigned short *)&out[((wy + 1) * (half + 2) + wx + 1) * Pixel<SPLIT>::words];
    to[channel] = (unsigned short)hi;
    if (SPLIT) to[32 + channel] = (unsigned short)pack(v - low_half(hi), 0.f);
}

// The same of a window's four values, whose largest is sought and its place kept; the first of equals counts.
template <int H>
__device__ __forceinline__ void window(float a, float b, float c, float d, float scale, int wy, int wx, int channel,
                                       float *out, unsigned char *which) {
    float best = a;
    int place = 0;
    if (b > best) { best = b; place = 1; }
    if (c > best) { best = c; place = 2; }
    if (d > best) { best = d; place = 3; }
    which[(wy * (H / 2) + wx) * 32 + channel] = (unsigned char)place;
    store<H, true>(best * scale, wy, wx, channel, out);
}

// The same for eight windows' upper and lower pixels of two channels. Neighbouring pixels are in neighbouring groups of lanes; these
// exchange, and each has a window of one channel. `y`, `x`: this lane's upper pixel.
template <int H, bool SPLIT, bool KEEP>
__device__ __forceinline__ void pool_tile(const float up[2], const float down[2], int y, int x, int channel, float *out,
                                          unsigned char *which) {
    const bool odd = threadIdx.x & 4;
    if (!KEEP) {
        const float v0 = fmaxf(up[0], down[0]), v1 = fmaxf(up[1], down[1]);
        const float best = fmaxf(odd ? v1 : v0, __shfl_xor_sync(ALL_LANES, odd ? v0 : v1, 4));
        store<H, SPLIT>(best * WEIGHT_UNSCALE, y / 2, x / 2, channel + odd, out);
        return;
    }
    const float my_up = odd ? up[1] : up[0], my_down = odd ? down[1] : down[0];
    const float its_up = __shfl_xor_sync(ALL_LANES, odd ? up[0] : up[1], 4);
    const float its_down = __shfl_xor_sync(ALL_LANES, odd ? down[0] : down[1], 4);
    window<H>(odd ? its_up : my_up, odd ? my_up : its_up, odd ? its_down : my_down, odd ? my_down : its_down, WEIGHT_UNSCALE,
              y / 2, x / 2, channel + odd, out, which);
}

// Layers 2 to 4 forward. Two tiles at a time, which are the upper and lower rows of windows; in a 4 x 4 image one tile has both.
template <int H, int N, int WARPS, bool SPLIT, bool KEEP>
__device__ __forceinline__ void layer(const float *in, const typename Fragment<SPLIT>::type *kernel,
                                      const float *biases, float *out, unsigned char *which) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int M = H == 4 ? 1 : 2, pairs = Tile<H>::count / M;
    for (int job = warp; job < pairs * (4 / N); job += WARPS) {
        const int tile = job % pairs * M, n0 = job / pairs * N;
        float d[M][N][4];
#pragma unroll
        for (int i = 0; i < M * N * 4; i++)
            d[i / (4 * N)][i / 4 % N][i % 4] = WEIGHT_SCALE * biases[(n0 + i / 4 % N) * 8 + 2 * t + i % 2];
        convolve<H, M, N, SPLIT>(in, kernel, tile, n0, d);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int group = 0; group < M; group++)
                pool_tile<H, SPLIT, KEEP>(&d[0][n][2 * group], H == 4 ? &d[0][n][2] : &d[M - 1][n][2 * group],
                                          tile + Tile<H>::y(group, g), Tile<H>::x(group, g), (n0 + n) * 8 + 2 * t, out, which);
    }
}

// log(1 + e^z) - y z
__device__ __forceinline__ float cross_entropy(float z, float y) {
    return fmaxf(z, 0.f) + log1pf(expf(-fabsf(z))) - y * z;
}
