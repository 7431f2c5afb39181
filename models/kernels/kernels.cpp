// The five operators of modescope.models.kernels, forward and backward, on a CPU.
//
// Rows are split over torch's threads. A row is read in vectors of ATen, converted to fp32 (fp64
// stays fp64). Sums over rows are added up by chunks of rows that do not depend on the number of
// threads, so that their bits repeat.
#include "rows.h"

#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <vector>

namespace {
std::tuple<Tensor, Tensor, Tensor> rmsnorm(
    const Tensor& x, const Tensor& residual, const Tensor& weight, double eps) {
  TORCH_CHECK_VALUE(x.sizes() == residual.sizes(), "x and residual differ in shape");
  TORCH_CHECK_VALUE(weight.dim() == 1 && weight.size(0) == x.size(-1), "weight is not (width,)");
  const Rows a(x), b(residual);
  const Tensor w = weight.contiguous();
  Tensor y = like(x), h = like(x), rstd = at::empty({a.count}, wide(x));
  by_type(x, [&](auto zero) {
    using T = decltype(zero);
    using A = Wide<T>;
    const T* pw = w.const_data_ptr<T>();
    T *py = y.mutable_data_ptr<T>(), *ph = h.mutable_data_ptr<T>();
    A* ps = rstd.mutable_data_ptr<A>();
    over_rows(a.count, a.width, [&](int64_t row) {
      const T *ra = a.row<T>(row), *rb = b.row<T>(row);
      T *rh = ph + row * a.width, *ry = py + row * a.width;
      Vec<T> squares(0);
      over<T>(a.width, [&](int64_t i, auto count) {
        const auto rounded = at::vec::convert<T>(load(ra + i, count) + load(rb + i, count));
        rounded.store(rh + i, count);  // the sum is normed as it is stored, like in eager
        const Vec<T> v = at::vec::convert<A>(rounded);
        squares = at::vec::fmadd(v, v, squares);
      });
      const A s = 1 / std::sqrt(sum(squares) / a.width + A(eps));
      ps[row] = s;
      over<T>(a.width, [&](int64_t i, auto count) {
        store(load(rh + i, count) * Vec<T>(s) * load(pw + i, count), ry + i, count);
      });
    });
  });
  return {y, h, rstd};
}

std::tuple<Tensor, Tensor> rmsnorm_backward(
    const Tensor& grad_y, const Tensor& grad_h, const Tensor& h_, const Tensor& weight,
    const Tensor& rstd) {
  const Rows gy(grad_y), gh(grad_h), h(h_);
  const Tensor w = weight.contiguous();
  Tensor gx = like(h_), part = at::zeros({chunks_of(h.count), h.width}, wide(h_));
  by_type(h_, [&](auto zero) {
    using T = decltype(zero);
    using A = Wide<T>;
    const T* pw = w.const_data_ptr<T>();
    const A* ps = rstd.const_data_ptr<A>();
    T* px = gx.mutable_data_ptr<T>();
    A* pp = part.mutable_data_ptr<A>();
    over_chunks(h.count, h.width, [&](int64_t chunk, int64_t row) {
      const T *rg = gy.row<T>(row), *rk = gh.row<T>(row), *rh = h.row<T>(row);
      T* rx = px + row * h.width;
      A* total = pp + chunk * h.width;
      const Vec<T> s(ps[row]);
      Vec<T> dot(0);
      over<T>(h.width, [&](int64_t i, auto count) {
        const Vec<T> gv = load(rg + i, count) * load(rh + i, count);
        dot = at::vec::fmadd(gv, load(pw + i, count), dot);
        add(total + i, gv * s, count);
      });
      const Vec<T> c(sum(dot) * ps[row] * ps[row] * ps[row] / h.width);
      over<T>(h.width, [&](int64_t i, auto count) {
        const Vec<T> direct = load(rg + i, count) * load(pw + i, count) * s;
        store(load(rk + i, count) + direct - load(rh + i, count) * c, rx + i, count);
      });
    });
  });
  return {gx, part.sum(0).to(weight.scalar_type())};
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  TORCH_CHECK_VALUE(gate.sizes() == up.sizes(), "gate and up differ in shape");
  const Rows g(gate), u(up);
  Tensor y = like(gate);
  by_type(gate, [&](auto zero) {
    using T = decltype(zero);
    T* py = y.mutable_data_ptr<T>();
    over_rows(g.count, g.width, [&](int64_t row) {
      const T *rg = g.row<T>(row), *ru = u.row<T>(row);
      T* ry = py + row * g.width;
      over<T>(g.width, [&](int64_t i, auto count) {
        const Vec<T> a = load(rg + i, count);
        store(a / (Vec<T>(1) + a.neg().exp()) * load(ru + i, count), ry + i, count);
      });
    });
  });
  return y;
}

std::tuple<Tensor, Tensor> swiglu_backward(
    const Tensor& grad, const Tensor& gate, const Tensor& up) {
  const Rows d(grad), g(gate), u(up);
  Tensor grad_gate = like(gate), grad_up = like(up);
  by_type(gate, [&](auto zero) {
    using T = decltype(zero);
    T *pg = grad_gate.mutable_data_ptr<T>(), *pu = grad_up.mutable_data_ptr<T>();
    over_rows(g.count, g.width, [&](int64_t row) {
      const T *rd = d.row<T>(row), *rg = g.row<T>(row), *ru = u.row<T>(row);
      const int64_t start = row * g.width;
      over<T>(g.width, [&](int64_t i, auto count) {
        const Vec<T> a = load(rg + i, count), e = load(rd + i, count), unit(1);
        const Vec<T> s = unit / (unit + a.neg().exp());
        store(e * a * s, pu + start + i, count);
        const Vec<T> slope = s * (unit + a * (unit - s));
        store(e * load(ru + i, count) * slope, pg + start + i, count);
      });
    });
  });
  return {grad_gate, grad_up};
}

// `sign` is 1 forward, and -1 backward, which turns the other way.
Tensor rope(const Tensor& x_, const Tensor& cos_, const Tensor& sin_, double sign) {
  TORCH_CHECK_VALUE(x_.dim() == 4 && x_.size(3) % 2 == 0, "x is not (batch, seq, heads, even)");
  const Tensor x = x_.stride(3) == 1 ? x_ : x_.contiguous();
  const Tensor cos = cos_.contiguous(), sin = sin_.contiguous();
  const int64_t seq = x.size(1), heads = x.size(2), half = x.size(3) / 2;
  const std::vector<int64_t> table{seq, half};
  TORCH_CHECK_VALUE(cos.sizes() == table && sin.sizes() == table, "cos, sin: not (seq, width / 2)");
  Tensor y = like(x);
  by_type(x, [&](auto zero) {
    using T = decltype(zero);
    const T *px = x.const_data_ptr<T>();
    const T *pc = cos.const_data_ptr<T>(), *ps = sin.const_data_ptr<T>();
    T* py = y.mutable_data_ptr<T>();
    over_rows(x.size(0) * seq, heads * half * 2, [&](int64_t token) {
      const int64_t place = token % seq;
      const T *rc = pc + place * half, *rs = ps + place * half;
      for (int64_t head = 0; head < heads; head++) {
        const T* from = px + token / seq * x.stride(0) + place * x.stride(1) + head * x.stride(2);
        T* to = py + (token * heads + head) * 2 * half;
        over<T>(half, [&](int64_t i, auto count) {
          const Vec<T> c = load(rc + i, count), s = load(rs + i, count) * Vec<T>(sign);
          const Vec<T> a = load(from + i, count), b = load(from + half + i, count);
          store(a * c - b * s, to + i, count);
          store(b * c + a * s, to + half + i, count);
        });
      }
    });
  });
  return y;
}

// The share of a standard normal distribution below z.
template <class V> V share_below(const V& z) {
  return V(0.5) * (V(1) + (z * V(0.70710678118654752440)).erf());
}

std::tuple<Tensor, Tensor, Tensor> layernorm_gelu(
    const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  TORCH_CHECK_VALUE(weight.dim() == 1 && weight.size(0) == x.size(-1), "weight is not (width,)");
  TORCH_CHECK_VALUE(bias.sizes() == weight.sizes(), "weight and bias differ in shape");
  const Rows a(x);
  const Tensor w = weight.contiguous(), b = bias.contiguous();
  Tensor y = like(x), mean = at::empty({a.count}, wide(x)), rstd = like(mean);
  by_type(x, [&](auto zero) {
    using T = decltype(zero);
    using A = Wide<T>;
    const T *pw = w.const_data_ptr<T>(), *pb = b.const_data_ptr<T>();
    T* py = y.mutable_data_ptr<T>();
    A *pm = mean.mutable_data_ptr<A>(), *ps = rstd.mutable_data_ptr<A>();
    over_rows(a.count, a.width, [&](int64_t row) {
      const T* ra = a.row<T>(row);
      T* ry = py + row * a.width;
      Vec<T> total(0), squares(0);
      over<T>(a.width, [&](int64_t i, auto count) { total = total + load(ra + i, count); });
      pm[row] = sum(total) / a.width;
      const Vec<T> m(pm[row]);
      over<T>(a.width, [&](int64_t i, auto count) {
        const Vec<T> off = Vec<T>::set(Vec<T>(0), load(ra + i, count) - m, count);
        squares = at::vec::fmadd(off, off, squares);
      });
      ps[row] = 1 / std::sqrt(sum(squares) / a.width + A(eps));
      const Vec<T> s(ps[row]);
      over<T>(a.width, [&](int64_t i, auto count) {
        const Vec<T> n = (load(ra + i, count) - m) * s;
        const Vec<T> z = at::vec::fmadd(n, load(pw + i, count), load(pb + i, count));
        store(z * share_below(z), ry + i, count);
      });
    });
  });
  return {y, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> layernorm_gelu_backward(
    const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& bias,
    const Tensor& mean, const Tensor& rstd) {
  const Rows g(grad), a(x);
  const Tensor w = weight.contiguous(), b = bias.contiguous();
  const int64_t chunks = chunks_of(a.count), width = a.width;
  Tensor gx = like(x), part = at::zeros({2, chunks, width}, wide(x));
  Tensor held = at::empty({chunks, width}, wide(x));  // a row of gradients of the norm's output
  by_type(x, [&](auto zero) {
    using T = decltype(zero);
    using A = Wide<T>;
    const T *pw = w.const_data_ptr<T>(), *pb = b.const_data_ptr<T>();
    const A *pm = mean.const_data_ptr<A>(), *ps = rstd.const_data_ptr<A>();
    T* px = gx.mutable_data_ptr<T>();
    A *pp = part.mutable_data_ptr<A>(), *pt = held.mutable_data_ptr<A>();
    over_chunks(a.count, width, [&](int64_t chunk, int64_t row) {
      const T *rg = g.row<T>(row), *ra = a.row<T>(row);
      T* rx = px + row * width;
      A *gw = pp + chunk * width, *gb = gw + chunks * width, *t = pt + chunk * width;
      const Vec<T> m(pm[row]), s(ps[row]);
      Vec<T> total(0), dot(0);
      over<T>(width, [&](int64_t i, auto count) {
        const Vec<T> n = (load(ra + i, count) - m) * s, v = load(pw + i, count);
        const Vec<T> z = at::vec::fmadd(n, v, load(pb + i, count));
        const Vec<T> density = (z * z * Vec<T>(-0.5)).exp() * Vec<T>(0.39894228040143267794);
        const Vec<T> e = load(rg + i, count) * at::vec::fmadd(z, density, share_below(z));
        add(gw + i, e * n, count);
        add(gb + i, e, count);
        const Vec<T> d = e * v;  // 0 in the lanes beyond the row, where load gives 0
        d.store(t + i, count);
        total = total + d;
        dot = at::vec::fmadd(d, n, dot);
      });
      const Vec<T> c(sum(total) / width), k(sum(dot) / width);
      over<T>(width, [&](int64_t i, auto count) {
        const Vec<T> n = (load(ra + i, count) - m) * s;
        store(s * (Vec<T>::loadu(t + i, count) - c - n * k), rx + i, count);
      });
    });
  });
  const Tensor sums = part.sum(1).to(weight.scalar_type());
  return {gx, sums[0].clone(), sums[1].clone()};
}

std::tuple<Tensor, Tensor> cross_entropy(const Tensor& logits, const Tensor& target_) {
  TORCH_CHECK_VALUE(
      logits.dim() == 2 && target_.dim() == 1 && target_.size(0) == logits.size(0),
      "logits and target are not (rows, classes) and (rows,)");
  const Rows x(logits);
  const Tensor target = target_.contiguous();
  const int64_t rows = logits.size(0);
  Tensor loss = at::empty({rows}, x.data.options()), lse = at::empty({rows}, wide(logits));
  by_type(logits, [&](auto zero) {
    using T = decltype(zero);
    using A = Wide<T>;
    constexpr int64_t piece = 1024;  // elements that stay in the first cache between two passes
    constexpr A lowest = -std::numeric_limits<A>::infinity();
    const int64_t* pt = target.const_data_ptr<int64_t>();
    T* pl = loss.mutable_data_ptr<T>();
    A* ps = lse.mutable_data_ptr<A>();
    over_rows(rows, x.width, [&](int64_t row) {
      const T* from = x.row<T>(row);
      A top = lowest, total = 0;
      for (int64_t start = 0; start < x.width; start += piece) {
        const int64_t size = std::min(piece, x.width - start);
        const T* part = from + start;
        Vec<T> most(top), sums(0);
        over<T>(size, [&](int64_t i, auto count) {
          most = at::vec::maximum(most, Vec<T>::set(most, load(part + i, count), count));
        });
        const A higher = at::vec::vec_reduce_all<A>(
            [](auto& a, auto& b) { return at::vec::maximum(a, b); }, most);
        const A base = higher == lowest ? A(0) : higher;  // a row may begin with classes at -inf
        over<T>(size, [&](int64_t i, auto count) {
          const Vec<T> e = (load(part + i, count) - Vec<T>(base)).exp();
          sums = sums + Vec<T>::set(Vec<T>(0), e, count);
        });
        total = total * std::exp(top - base) + sum(sums);
        top = higher;
      }
      TORCH_CHECK_INDEX(pt[row] >= 0 && pt[row] < x.width, "target ", pt[row], ": no such class");
      ps[row] = top + std::log(total);
      pl[row] = static_cast<T>(top - A(from[pt[row]]) + std::log(total));
    });
  });
  return {loss, lse};
}

Tensor cross_entropy_backward(
    const Tensor& grad_, const Tensor& logits, const Tensor& target_, const Tensor& lse) {
  const Rows x(logits);
  const Tensor target = target_.contiguous(), grad = grad_.contiguous();
  Tensor gx = like(logits);
  by_type(logits, [&](auto zero) {
    using T = decltype(zero);
    using A = Wide<T>;
    const int64_t* pt = target.const_data_ptr<int64_t>();
    const T* pg = grad.const_data_ptr<T>();
    const A* ps = lse.const_data_ptr<A>();
    T* px = gx.mutable_data_ptr<T>();
    over_rows(x.count, x.width, [&](int64_t row) {
      const T* from = x.row<T>(row);
      T* to = px + row * x.width;
      const Vec<T> s(ps[row]), g(static_cast<A>(pg[row]));
      over<T>(x.width, [&](int64_t i, auto count) {
        store((load(from + i, count) - s).exp() * g, to + i, count);
      });
      const int64_t t = pt[row];
      to[t] = static_cast<T>((std::exp(A(from[t]) - ps[row]) - 1) * A(pg[row]));
    });
  });
  return gx;
}

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK_VALUE(
      false, op.schema().name(), " runs on a CPU, and its tensors are on a GPU: use kernels=triton");
}
}  // namespace

TORCH_LIBRARY(modescope_kernels, m) {
  m.def("rmsnorm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor, Tensor)");
  m.def("rmsnorm_backward(Tensor grad_y, Tensor grad_h, Tensor h, Tensor weight, Tensor rstd) -> (Tensor, Tensor)");
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor");
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)");
  m.def("rope(Tensor x, Tensor cos, Tensor sin, float sign) -> Tensor");
  m.def("layernorm_gelu(Tensor x, Tensor weight, Tensor bias, float eps) -> (Tensor, Tensor, Tensor)");
  m.def("layernorm_gelu_backward(Tensor grad, Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor rstd) -> (Tensor, Tensor, Tensor)");
  m.def("cross_entropy(Tensor logits, Tensor target) -> (Tensor, Tensor)");
  m.def("cross_entropy_backward(Tensor grad, Tensor logits, Tensor target, Tensor lse) -> Tensor");
}

TORCH_LIBRARY_IMPL(modescope_kernels, CPU, m) {
  m.impl("rmsnorm", rmsnorm);
  m.impl("rmsnorm_backward", rmsnorm_backward);
  m.impl("swiglu", swiglu);
  m.impl("swiglu_backward", swiglu_backward);
  m.impl("rope", rope);
  m.impl("layernorm_gelu", layernorm_gelu);
  m.impl("layernorm_gelu_backward", layernorm_gelu_backward);
  m.impl("cross_entropy", cross_entropy);
  m.impl("cross_entropy_backward", cross_entropy_backward);
}

TORCH_LIBRARY_IMPL(modescope_kernels, CUDA, m) {
  for (const char* name : {"rmsnorm", "swiglu", "rope", "layernorm_gelu", "cross_entropy"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
}
