// A convolution from 32 to 32 channels, 3 x 3, with ReLU and 2 x 2 max-pool, tile by tile.
//
// Images lie in shared memory pixel by pixel with a border of one pixel: 32 channels hi (16 words), 32 channels lo (another 16,
// only where split), and 4 words apart, which puts eight neighbouring pixels into different banks.

template <bool SPLIT> struct Pixel {
    static const int words = SPLIT ? 36 : 20;
};

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
    [[maybe_unused]] const int CHAINS = M * N > 2 ? 1 : 3;
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
        if constexpr (SPLIT) {
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
        } else {
#pragma unroll
            for (int ky = 0; ky < 3; ky++)
#pragma unroll
                for (int i = 0; i < M * N; i++) product(d[i / N][i % N], a[i / N + ky], b[ky][i % N]);
        }
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
