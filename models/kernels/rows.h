// Reads and writes rows of a tensor in vectors of ATen, and splits rows over torch's threads.
#pragma once

#ifndef _OPENMP
#error "without -fopenmp at::parallel_for runs on one thread and says nothing"
#endif

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace {
using at::Tensor;
template <class T> using Wide = at::opmath_type<T>;
template <class T> using Vec = at::vec::Vectorized<Wide<T>>;

constexpr int64_t GRAIN = 32768;  // elements for which a thread is worth it, as in TensorIterator.h
constexpr int64_t MOST_CHUNKS = 64, CHUNK_ROWS = 16;  // of sums over rows

template <class T> Vec<T> load(const T* from, int count) {
  return at::vec::convert<Wide<T>>(at::vec::Vectorized<T>::loadu(from, count));
}

template <class T> void store(const Vec<T>& value, T* to, int count) {
  at::vec::convert<T>(value).store(to, count);
}

// Adds to `total`, a row of sums in fp32 or fp64.
template <class A> void add(A* total, const at::vec::Vectorized<A>& value, int count) {
  using V = at::vec::Vectorized<A>;
  (V::loadu(total, count) + value).store(total, count);
}

template <class A> A sum(const at::vec::Vectorized<A>& value) {
  return at::vec::vec_reduce_all<A>([](auto& a, auto& b) { return a + b; }, value);
}

// Calls body(place, count) for each vector of a row; count is a constant for all but the last.
template <class T, class F> inline void over(int64_t width, F&& body) {
  constexpr int lanes = Vec<T>::size();
  int64_t place = 0;
  for (; place + lanes <= width; place += lanes) body(place, std::integral_constant<int, lanes>{});
  if (place < width) body(place, static_cast<int>(width - place));
}

// Calls body with a zero of the type of x.
template <class F> void by_type(const Tensor& x, F&& body) {
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, x.scalar_type(), "modescope_kernels", [&] { body(scalar_t{}); });
}

int64_t grain(int64_t width) { return std::max<int64_t>(1, GRAIN / std::max<int64_t>(width, 1)); }

template <class F> void over_rows(int64_t rows, int64_t width, const F& body) {
  at::parallel_for(0, rows, grain(width), [&](int64_t from, int64_t to) {
    for (int64_t row = from; row < to; row++) body(row);
  });
}

int64_t chunks_of(int64_t rows) { return std::clamp<int64_t>(rows / CHUNK_ROWS, 1, MOST_CHUNKS); }

// Calls body(chunk, row) for the rows of each chunk in order, on one thread.
template <class F> void over_chunks(int64_t rows, int64_t width, const F& body) {
  const int64_t chunks = chunks_of(rows);
  at::parallel_for(0, chunks, grain(rows / chunks * width), [&](int64_t from, int64_t to) {
    for (int64_t chunk = from; chunk < to; chunk++)
      for (int64_t row = rows * chunk / chunks; row < rows * (chunk + 1) / chunks; row++)
        body(chunk, row);
  });
}

// A tensor as rows whose elements lie side by side; copied only where they do not.
struct Rows {
  Tensor data;
  int64_t count, width, stride;

  explicit Rows(const Tensor& x) : width(x.size(-1)) {
    count = width ? x.numel() / width : 0;
    data = x.reshape({count, width});
    if (width > 1 && data.stride(1) != 1) data = data.contiguous();
    stride = data.stride(0);
  }
  template <class T> const T* row(int64_t index) const {
    return data.const_data_ptr<T>() + index * stride;
  }
};

Tensor like(const Tensor& x) { return at::empty(x.sizes(), x.options()); }
at::TensorOptions wide(const Tensor& x) {
  return x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace
