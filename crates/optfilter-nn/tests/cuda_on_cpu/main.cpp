// Runs the kernels on the problem of golden/adam_trajectory.py and prints what they compute, one `name value` per line.
#include "shim.h"
#include "kernels.inc"

int main() {
    // The second chain has the 32 images; the first one has room for as many, but only four. 20 places for each block: the second
    // block meets both chains, and of the first one nothing that is there.
    const int n = 32, few = 4, chains = 2, per_block = 20, blocks = 4, rows = blocks + chains - 1, steps = 2;
    dynamic_shared = (float *)aligned_alloc(64, 256 * 1024);
    std::vector<float> w(chains * PITCH), m(chains * PITCH), v(chains * PITCH), prior(chains * PITCH), pulls(chains),
        partial(rows * PITCH), loss(rows), grad(chains * PITCH), images(2 * n * 1024), labels(2 * n), scales(chains, 1.f), factors(chains * n, 1.f),
        z(chains * n), sums(1);
    std::vector<uint4> fragments(chains * 6 * FRAGMENTS);
    std::vector<int> counts = {n, few}, set_of = {1, 0}, first_set(chains, 0);
    for (int c = 0; c < chains; c++)
        for (int i = 0; i < WEIGHTS; i++) w[c * PITCH + i] = (float)(0.1 * sin(12.9898 * (i + 1)));
    for (int s = 0; s < n; s++) {
        labels[s] = (float)(s * 5 / 3 % 2);
        for (int i = 0; i < 1024; i++)
            images[s * 1024 + i] = (float)(0.5 + 0.5 * sin(0.3 * (i / 32) * (1 + labels[s]) + 0.2 * (i % 32) + s));
    }
    std::copy(images.begin(), images.begin() + few * 1024, images.begin() + n * 1024);
    std::copy(labels.begin(), labels.begin() + few, labels.begin() + n);
    auto update = [&](float rate, float correct, float *g) {
        launch(30, chains, 256, [&] {
            adam(w.data(), fragments.data(), m.data(), v.data(), prior.data(), pulls.data(), partial.data(), n,
                 per_block, rate, correct, {0.9f, 0.1f, 0.999f, 0.001f}, g);
        });
    };
    update(0.f, 1.f, nullptr);
    for (int k = 0; k < steps; k++) {
        std::fill(partial.begin(), partial.end(), NAN); // what is not written shows
        launch(blocks, 1, THREADS, [&] {
            gradient(w.data(), fragments.data(), images.data(), labels.data(), counts.data(), set_of.data(),
                     scales.data(), factors.data(), n, chains, n, per_block, partial.data(), loss.data());
        });
        update((float)(1e-3 / (1 - pow(0.9, k + 1))), (float)(1 / (1 - pow(0.999, k + 1))), grad.data());
        double total = 0, norm = 0;
        for (int b = n / per_block; b < blocks; b++) total += loss[b + 1]; // of the second chain
        for (int i = 0; i < WEIGHTS; i++) norm += (double)grad[PITCH + i] * grad[PITCH + i];
        printf("loss%d %.9g\nnorm%d %.9g\n", k, total, k, sqrt(norm));
    }
    launch(2, chains, THREADS,
           [&] { predict(w.data(), fragments.data(), images.data(), first_set.data(), n, 16, z.data()); });
    double total = 0;
    for (int i = 0; i < n; i++) total += cross_entropy(z[n + i], labels[i]);
    printf("predict %.9g\n", total);
    total = 0;
    for (int i = 0; i < few; i++) total += cross_entropy(z[i], labels[i]);
    printf("four %.9g\n", total);
    // Factors of images: the loss is their weighted sum, and the derivative is linear in them.
    std::vector<std::vector<float>> derivatives;
    for (const auto [early, late] : {std::pair{1.f, 0.f}, {0.f, 1.f}, {0.25f, 1.f}}) {
        for (int i = 0; i < n; i++) factors[n + i] = i < n / 2 ? early : late;
        launch(blocks, 1, THREADS, [&] {
            gradient(w.data(), fragments.data(), images.data(), labels.data(), counts.data(), set_of.data(),
                     scales.data(), factors.data(), n, chains, n, per_block, partial.data(), loss.data());
        });
        update(0.f, 1.f, grad.data());
        derivatives.emplace_back(grad.begin() + PITCH, grad.begin() + PITCH + WEIGHTS);
    }
    double off = 0, length = 0, weighted = 0;
    total = 0;
    for (int b = n / per_block; b < blocks; b++) total += loss[b + 1];
    for (int i = 0; i < n; i++) weighted += (i < n / 2 ? 0.25 : 1.0) * cross_entropy(z[n + i], labels[i]);
    for (int i = 0; i < WEIGHTS; i++) {
        const double a = 0.25 * derivatives[0][i] + derivatives[1][i] - derivatives[2][i];
        off += a * a, length += (double)derivatives[2][i] * derivatives[2][i];
    }
    printf("factors %.9g\nweighted %.9g\nlinear %.9g\n", total, weighted, sqrt(off / length));
    std::vector<float> average(chains * PITCH, 1.f), shares = {0.f, 0.25f};
    launch(1, chains, 256, [&] { blend(w.data(), average.data(), shares.data()); });
    double blended = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        blended = fmax(blended, fabs(average[PITCH + i] - (0.75 + 0.25 * w[PITCH + i])));
        blended = fmax(blended, fabs(average[i] - 1.0));
    }
    printf("blend %.9g\n", blended);
    for (int count : {few, few - 1}) {
        counts[0] = count;
        launch(1, 1, THREADS, [&] { losses(w.data(), images.data(), labels.data(), counts.data(), n, sums.data()); });
        printf("exact%d %.9g\n", count, sums[0]);
        launch(1, 1, P_THREADS, [&] { losses_half(w.data(), images.data(), labels.data(), counts.data(), n, sums.data()); });
        printf("half%d %.9g\n", count, sums[0]);
    }
    std::vector<float> noise(4 * PITCH), stds = {1.f, 2.f};
    std::vector<unsigned> keys = {1, 2, 3, 4};
    launch(2, 2, 256, [&] { disturb(noise.data(), stds.data(), keys.data(), 5); });
    for (int c = 0; c < 2; c++) {
        double square = 0, fourth = 0;
        for (int i = 0; i < 2 * PITCH; i++) {
            const double a = noise[c * 2 * PITCH + i];
            square += a * a / (2 * PITCH), fourth += a * a * a * a / (2 * PITCH);
        }
        printf("variance%d %.9g\nkurtosis%d %.9g\n", c, square, c, fourth / square / square);
    }
}
