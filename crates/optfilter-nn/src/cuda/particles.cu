// Losses of many particles with the tensor cores (TF32: 10 bits of fraction, sums in single precision).
//
// A particle filter compares losses and needs no derivative, so the rounding to TF32 (5e-4 of a product) is far below
// what tells particles apart; the exact kernel `losses` stays for checks. One block takes one particle through all its images,
// two at a time, with the weights of layers 2 and 3 in shared memory.
//
// A tile of the product is 16 pixels x 8 channels x 8 terms. Its 16 rows are 8 neighbouring pixels of an image row and the 8
// below them, so that the four pixels of a pooling window lie in two registers of two neighbouring groups of lanes: the maximum
// takes one comparison in a lane and one shuffle. Pixels are 36 floats apart and weights are swizzled: no bank conflicts.

#define APART 36
#define T_X0 0
#define T_A1 (T_X0 + 2 * 1156)
#define T_A2 (T_A1 + 2 * 18 * 18 * APART)
#define T_A3 (T_A2 + 2 * 10 * 10 * APART)
#define T_A4 (T_A3 + 2 * 6 * 6 * APART)
#define T_W (T_A4 + 2 * 128)
#define T_Z (T_W + 2 * 9216)
#define TENSOR_FLOATS (T_Z + 64)

#ifndef EMULATED
__device__ __forceinline__ float tf32(float v) {
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return __uint_as_float(r);
}

// d += a b for one tile; a, b hold TF32 numbers.
__device__ __forceinline__ void tile_product(float d[4], const float a[4], const float b[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
                   "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}
#endif

// Pool, bias, ReLU and store of one tile; `y`, `x` is this lane's pixel of the upper row. The next layer's input is rounded to TF32.
template <int H>
__device__ __forceinline__ void store_tile(const float d[4], int y, int x, int channel, const float *__restrict__ bias,
                                           float *out) {
    const int lane = threadIdx.x & 31;
    const int half = H / 2, at = H == 4 ? (y / 2 * 2 + x / 2) * 32 : ((y / 2 + 1) * (half + 2) + x / 2 + 1) * APART;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float v = fmaxf(d[j], d[j + 2]);
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 4));
        v = relu(v + bias[channel + j]);
        if ((lane & 4) == 0) out[at + channel + j] = H == 4 ? v : tf32(v);
    }
}

// First layer: nine terms, filled up to sixteen with zeros.
__device__ __forceinline__ void first_tiles(const float *x0, const float *__restrict__ w, float *a1) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    float b[2][4][2];
    int place[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int k = t + 4 * i;
        place[i] = k < 9 ? (k / 3) * 34 + k % 3 : 0;
#pragma unroll
        for (int n = 0; n < 4; n++) b[i / 2][n][i % 2] = k < 9 ? tf32(w[KERNEL1 + k * 32 + n * 8 + g]) : 0.f;
    }
    for (int m = warp; m < 128; m += WARPS) {
        const int image = m / 64, y = m % 64 / 4 * 2, x = m % 4 * 8 + g;
        const float *at = &x0[image * 1156 + y * 34 + x];
        float d[4][4];
#pragma unroll
        for (int i = 0; i < 16; i++) d[i / 4][i % 4] = 0.f;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float a[4] = {at[place[2 * k]], at[place[2 * k] + 34], at[place[2 * k + 1]], at[place[2 * k + 1] + 34]};
#pragma unroll
            for (int n = 0; n < 4; n++) tile_product(d[n], a, b[k][n]);
        }
#pragma unroll
        for (int n = 0; n < 4; n++)
            store_tile<32>(d[n], y, x, n * 8 + 2 * t, w + BIAS1, a1 + image * 18 * 18 * APART);
    }
}

// Layers 2 to 4: each warp takes M tiles of pixels and N tiles of channels at a time. `kernel` is swizzled in shared memory, or
// (SHARED false) as it lies in global memory.
template <int H, int M, int N, bool SHARED_WEIGHTS>
__device__ __forceinline__ void tiles(const float *in, const float *kernel, const float *__restrict__ bias, float *out,
                                      int out_stride) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    const int per_image = H * H / 16, groups = 2 * per_image / M;
    for (int job = warp; job < groups * (4 / N); job += WARPS) {
        const int first = job % groups * M, n0 = job / groups * N;
        const float *at[M];
        int y[M], x[M], image[M];
#pragma unroll
        for (int m = 0; m < M; m++) {
            const int tile = (first + m) % per_image;
            image[m] = (first + m) / per_image;
            y[m] = H == 4 ? g / 4 * 2 : tile / (H / 8 > 0 ? H / 8 : 1) * 2;
            x[m] = H == 4 ? g % 4 : tile % (H / 8 > 0 ? H / 8 : 1) * 8 + g;
            at[m] = &in[(image[m] * (H + 2) * (H + 2) + y[m] * (H + 2) + x[m]) * APART + t];
        }
        float d[M][N][4];
#pragma unroll
        for (int i = 0; i < M * N * 4; i++) d[i / (4 * N)][i / 4 % N][i % 4] = 0.f;
#pragma unroll 1
        for (int tap = 0; tap < 9; tap++) {
            const int offset = (tap / 3 * (H + 2) + tap % 3) * APART;
#pragma unroll
            for (int k8 = 0; k8 < 4; k8++) {
                float b[N][2];
#pragma unroll
                for (int n = 0; n < N; n++) {
                    const int column = (n0 + n) * 8 + g, row = tap * 32 + k8 * 8 + t;
                    if (SHARED_WEIGHTS) {
                        b[n][0] = kernel[row * 32 + (column ^ (t * 8))];
                        b[n][1] = kernel[(row + 4) * 32 + (column ^ (t * 8))];
                    } else {
                        b[n][0] = tf32(kernel[row * 32 + column]);
                        b[n][1] = tf32(kernel[(row + 4) * 32 + column]);
                    }
                }
#pragma unroll
                for (int m = 0; m < M; m++) {
                    const float *p = at[m] + offset + k8 * 8;
                    const float a[4] = {p[0], p[(H + 2) * APART], p[4], p[(H + 2) * APART + 4]};
#pragma unroll
                    for (int n = 0; n < N; n++) tile_product(d[m][n], a, b[n]);
                }
            }
        }
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++)
                store_tile<H>(d[m][n], y[m], x[m], (n0 + n) * 8 + 2 * t, bias, out + image[m] * out_stride);
    }
}

// As `losses`, with the tensor cores. Grid: (particles, chains).
extern "C" __global__ void __launch_bounds__(THREADS, 1)
losses_tf32(const float *__restrict__ particles, const float *__restrict__ images, const float *__restrict__ labels,
            const int *__restrict__ counts, int capacity, float *out) {
    extern __shared__ __align__(16) float s[];
    const int chain = blockIdx.y, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float *w = particles + ((size_t)chain * gridDim.x + blockIdx.x) * PITCH;
    zero(s, T_W);
    for (int i = threadIdx.x; i < 2 * 9216; i += THREADS) {
        const int l = i / 9216, row = i % 9216 / 32, column = i % 32;
        s[T_W + l * 9216 + row * 32 + (column ^ ((row & 3) * 8))] = tf32(w[KERNEL(2 + l) + i % 9216]);
    }
    float sum = 0.f;
    const int count = counts[chain];
    __syncthreads();
    for (int image = 0; image < count; image += 2) {
        for (int i = threadIdx.x; i < 2048; i += THREADS) {
            const int which = image + i / 1024, pixel = i % 1024;
            // A second image that is not there is a copy of the first; its output is not counted.
            const int from = which < count ? which : image;
            s[T_X0 + i / 1024 * 1156 + (pixel / 32 + 1) * 34 + pixel % 32 + 1] =
                tf32(images[((size_t)chain * capacity + from) * 1024 + pixel]);
        }
        __syncthreads();
        first_tiles(s + T_X0, w, s + T_A1);
        __syncthreads();
        tiles<16, 2, 4, true>(s + T_A1, s + T_W, w + BIAS(2), s + T_A2, 10 * 10 * APART);
        __syncthreads();
        tiles<8, 1, 2, true>(s + T_A2, s + T_W + 9216, w + BIAS(3), s + T_A3, 6 * 6 * APART);
        __syncthreads();
        tiles<4, 1, 1, false>(s + T_A3, w + KERNEL(4), w + BIAS(4), s + T_A4, 128);
        __syncthreads();
        if (warp < 2) {
            float z = 0.f;
#pragma unroll
            for (int j = 0; j < 4; j++)
                z = fmaf(s[T_A4 + warp * 128 + j * 32 + lane], w[KERNEL_D + j * 32 + lane], z);
#pragma unroll
            for (int step = 16; step > 0; step /= 2) z += __shfl_xor_sync(0xffffffffu, z, step);
            if (lane == 0) s[T_Z + warp] = z + w[BIAS_D];
        }
        __syncthreads();
        sum += cross_entropy(s[T_Z], labels[chain * capacity + image]);
        if (image + 1 < count) sum += cross_entropy(s[T_Z + 1], labels[chain * capacity + image + 1]);
        __syncthreads();
    }
    if (threadIdx.x == 0) out[(size_t)chain * gridDim.x + blockIdx.x] = sum;
}
