// SPDX-License-Identifier: MIT
// Rules and their sentences. Macros, because a static_assert takes a literal and nothing else; a system header, because
// GCC then does not show how they are expanded, four lines each. Nothing but macros is here.
#pragma once
#pragma GCC system_header

// For a call whose values are named last, behind the name of a layer where it has one: a static_assert where they are
// types, error (invalid_argument) where they are not. MEGANEURA_EXPECT: what follows is done where the rule holds, and
// the result is the first value where a compiler has said that it does not. MEGANEURA_CHECK, before the others, is of
// values alone: what follows is done anyway; `shown` is what the compiler prints.
#define MEGANEURA_EXPECT(holds, sentence, ...)                                                                        \
  if constexpr (decltype(::meganeura::detail::typed_tag(__VA_ARGS__))::value && !__builtin_constant_p((holds))) {     \
    MEGANEURA_CHECK_CONSTANTS(__builtin_constant_p((holds)))                                                          \
    return ::meganeura::detail::first_of(__VA_ARGS__);                                                                \
  } else if constexpr (decltype(::meganeura::detail::typed_tag(__VA_ARGS__))::value && !(holds)) {                    \
    static_assert(::meganeura::detail::rule<(holds), decltype(::meganeura::detail::what_is(__VA_ARGS__))>, sentence); \
    return ::meganeura::detail::first_of(__VA_ARGS__);                                                                \
  } else if (!decltype(::meganeura::detail::typed_tag(__VA_ARGS__))::value && !(holds)) {                             \
    ::meganeura::detail::refuse(sentence, __VA_ARGS__);                                                               \
  } else
#define MEGANEURA_CHECK(rule, shown, sentence, ...)                                       \
  if constexpr (decltype(::meganeura::detail::typed_tag(__VA_ARGS__))::value) {           \
    static_assert(shown, sentence);                                                       \
  } else if constexpr (decltype(::meganeura::detail::run_time_tag(__VA_ARGS__))::value) { \
    if (!(rule)) ::meganeura::detail::refuse(sentence, __VA_ARGS__);                      \
  }

// The rules of two operands of a scalar function, those of OPERANDS first; `call` is how it is written.
#define MEGANEURA_CHECK_OPERANDS(call, a, b)                                                                 \
  static_assert(!::meganeura::detail::number_beside_type<decltype(a), decltype(b)>,                          \
                "meganeura: " call ": beside a type a number is part of it; write constant<2.0f> for 2.0f"); \
  MEGANEURA_CHECK(::meganeura::detail::mismatch(a, b).agrees(),                                              \
                  (::meganeura::detail::extents_agree<::meganeura::detail::mismatch(a, b)>),                 \
                  "meganeura: " call ": extents must be equal or 1", a, b)                                   \
  MEGANEURA_CHECK(::meganeura::detail::both_fit(a, b), ::meganeura::detail::both_fit(a, b),                  \
                  "meganeura: " call ": dtypes must agree; cast one operand", a, b)
#define MEGANEURA_NOT_HELD \
  "the dtype does not hold that number (an integer whole ones within its range, f16 none beyond 65504)"
#define MEGANEURA_EXPECT_HELD(call, x, number) \
  MEGANEURA_EXPECT(::meganeura::holds(x.facts().type, number), "meganeura: " call ": " MEGANEURA_NOT_HELD, x)
#define MEGANEURA_CHECK_RANGE(call, a, b)                                                          \
  MEGANEURA_CHECK(::meganeura::detail::unfitting_number(a, b).value == 0,                          \
                  (::meganeura::detail::dtype_holds<::meganeura::detail::common_type(a, b),        \
                                                    ::meganeura::detail::unfitting_number(a, b)>), \
                  "meganeura: " call ": " MEGANEURA_NOT_HELD "; cast it to f32", a, b)
#define MEGANEURA_CHECK_NUMBERS(call, a, b)                                                       \
  MEGANEURA_CHECK_RANGE(call, a, b)                                                               \
  MEGANEURA_CHECK(::meganeura::detail::common_type(a, b) != ::meganeura::dtype::boolean,          \
                  (::meganeura::detail::is_number_dtype<::meganeura::detail::common_type(a, b)>), \
                  "meganeura: " call ": a condition is no number; select(condition, a, b)", a, b)
#define MEGANEURA_CHECK_FLOATS(call, a, b)                                                       \
  MEGANEURA_CHECK(::meganeura::is_float(::meganeura::detail::common_type(a, b)),                 \
                  (::meganeura::detail::is_float_dtype<::meganeura::detail::common_type(a, b)>), \
                  "meganeura: " call ": operands must be floats; cast them", a, b)
#define MEGANEURA_CHECK_INTEGERS(call, a, b)                                                      \
  MEGANEURA_CHECK_RANGE(call, a, b)                                                               \
  MEGANEURA_CHECK(::meganeura::is_integer(::meganeura::detail::common_type(a, b)),                \
                  (!::meganeura::detail::is_float_dtype<::meganeura::detail::common_type(a, b)>), \
                  "meganeura: " call ": operands must be integers; cast them", a, b)
// Behind the value the name of a layer.
#define MEGANEURA_EXPECT_FLOATS(call, a, ...)                                                               \
  MEGANEURA_EXPECT(::meganeura::is_float(a.facts().type), "meganeura: " call ": x must be floats; cast it", \
                   __VA_ARGS__ __VA_OPT__(, ) a)
#define MEGANEURA_EXPECT_SUMS(call, a)                      \
  MEGANEURA_EXPECT(::meganeura::holds_sums(a.facts().type), \
                   "meganeura: " call ": x has 8 bits, too little for a sum; cast it", a)
#define MEGANEURA_EXPECT_KNOWN_AXIS(call, x, axis)                              \
  MEGANEURA_EXPECT((::meganeura::detail::has_places(x.facts().shape, axis, 1)), \
                   "meganeura: " call ": x has no such axis, or its extent is not known", x)
// A prediction and its target.
#define MEGANEURA_EXPECT_ALIKE(call, a, b)                                                                   \
  MEGANEURA_EXPECT(                                                                                          \
      (::meganeura::detail::are_of_one_type(a.facts(), b.facts()) && ::meganeura::is_float(a.facts().type)), \
      "meganeura: " call ": both must be floats of one shape and dtype", a, b)
#define MEGANEURA_CHECK_CONDITIONS(call, a, b)                                                     \
  MEGANEURA_CHECK(::meganeura::detail::common_type(a, b) == ::meganeura::dtype::boolean,           \
                  (!::meganeura::detail::is_number_dtype<::meganeura::detail::common_type(a, b)>), \
                  "meganeura: " call ": a and b must be conditions; compare with less, less_equal or equal", a, b)
// The axes of a reduction, which follow `x`.
#define MEGANEURA_EXPECT_AXES(call, x, ...)                                               \
  MEGANEURA_EXPECT((::meganeura::detail::axes_differ(x.facts().shape.rank, __VA_ARGS__)), \
                   "meganeura: " call ": an axis is named twice", x)                      \
  MEGANEURA_EXPECT((::meganeura::detail::axes_exist(x.facts().shape.rank, __VA_ARGS__)),  \
                   "meganeura: " call ": x has no such axis", x)
// Two operands of rows, and the axes of these.
#define MEGANEURA_EXPECT_ROWS(call, a, b, ...)                                                          \
  MEGANEURA_CHECK_OPERANDS(call, a, b)                                                                  \
  MEGANEURA_CHECK_FLOATS(call, a, b)                                                                    \
  MEGANEURA_EXPECT((::meganeura::detail::are_axes(::meganeura::detail::joint_rank(a, b), __VA_ARGS__)), \
                   "meganeura: " call ": each axis must be one of theirs, named once", a, b)
// For functions that are not scalar, in `make`, which knows what they are.
#define MEGANEURA_CHECK_FITTING(fits, x)                                                                           \
  MEGANEURA_CHECK(fits, fits,                                                                                      \
                  "meganeura: a condition is no number: select, logical_and, logical_or and logical_not take it; " \
                  "select(condition, a, b)",                                                                       \
                  x)
// What a function of types is given beside them, where it has a rule and in `make` and `layer`, through which all go.
#define MEGANEURA_CHECK_CONSTANTS(are)                                                                         \
  static_assert(are,                                                                                           \
                "meganeura: f(\"name\", x, n): where x is part of a type the name and n are constants; write " \
                "f<\"name\", n>(x), or f(x, c<n>)");
// Of a convolution layer `call` over so many axes, whose name, x, out and options are called so. Clang shows each macro
// that it goes through by a line: short ones.
#define MEGANEURA_EXTENTS_1 "[n, c, w]"
#define MEGANEURA_EXTENTS_2 "[n, c, h, w]"
#define MEGANEURA_EXTENTS_3 "[n, c, d, h, w]"
#define MEGANEURA_PLACES_1 "w"
#define MEGANEURA_PLACES_2 "h and w"
#define MEGANEURA_PLACES_3 "d, h and w"
#define MEGANEURA_EACH_1
#define MEGANEURA_EACH_2
#define MEGANEURA_EACH_3 ", each one number or three"
#define MEGANEURA_OF(call) "meganeura: " call "<name, out, options>(x): "
#define MEGANEURA_GEOMETRY "kernel, stride, dilation and groups must be at least 1, padding at least 0"
#define MEGANEURA_UNKNOWN " must be known; of symbols only n is one"
#define MEGANEURA_EXPECT_CHANNELS(call, axes, how)                                                  \
  MEGANEURA_EXPECT(::meganeura::detail::is_geometry(how, axes),                                     \
                   MEGANEURA_OF(call) MEGANEURA_GEOMETRY MEGANEURA_EACH_##axes, name, x)            \
  MEGANEURA_EXPECT_FLOATS(call "<name, out, options>(x)", x, name)                                  \
  MEGANEURA_EXPECT(::meganeura::detail::has_channels(x.facts().shape, axes),                        \
                   MEGANEURA_OF(call) "x must be " MEGANEURA_EXTENTS_##axes " of known c", name, x) \
  MEGANEURA_EXPECT(::meganeura::detail::divides_channels(x.facts().shape, how),                     \
                   MEGANEURA_OF(call) "c must be a multiple of groups", name, x)                    \
  MEGANEURA_EXPECT(::meganeura::detail::divides_results(out, how),                                  \
                   MEGANEURA_OF(call) "out must be at least 1 and a multiple of groups", name, x)   \
  MEGANEURA_EXPECT(::meganeura::detail::has_known_places(x.facts().shape),                          \
                   MEGANEURA_OF(call) MEGANEURA_PLACES_##axes MEGANEURA_UNKNOWN, name, x)
#define MEGANEURA_EXPECT_ROOM(call, axes)                                                                             \
  MEGANEURA_EXPECT(::meganeura::detail::has_room(x.facts().shape, options),                                           \
                   MEGANEURA_OF(call) "the window, dilation (kernel - 1) + 1, must fit into " MEGANEURA_PLACES_##axes \
                   " with padding at both ends",                                                                      \
                   name, x)
#define MEGANEURA_EXPECT_SPREAD(call, axes)                                                                          \
  MEGANEURA_EXPECT(::meganeura::detail::has_output_padding(options, axes),                                           \
                   MEGANEURA_OF(call) "output_padding must be at least 0, and less than the stride or the dilation", \
                   name, x)                                                                                          \
  MEGANEURA_EXPECT(::meganeura::detail::can_spread(x.facts().shape, out, options, axes),                             \
                   MEGANEURA_OF(call) "padding must leave an extent of at least 1 of the result", name, x)

// A comparison that gives a bool, which values cannot; `instead` is what gives a condition.
#define MEGANEURA_COMPARISON(op, instead)                                                                         \
  template <class A, class B>                                                                                     \
    requires(::meganeura::value<A> || ::meganeura::value<B>)                                                      \
  constexpr ::meganeura::detail::no_number operator op(const A&, const B&) {                                      \
    static_assert(::meganeura::detail::has_number<sizeof(A) + sizeof(B)>,                                         \
                  "meganeura: a " #op " b: a value has no number while a model is written; write select(" instead \
                  ", x, y)");                                                                                     \
    return {};                                                                                                    \
  }
// A call of a layer without its name.
#define MEGANEURA_UNNAMED(call, written)                                                                          \
  template <::meganeura::detail::no_name... Given, value A, class... Others>                                      \
  constexpr auto call(const A& x, const Others&...) {                                                             \
    static_assert(sizeof(A) == 0, "meganeura: " written                                                           \
                                  ": a name comes first, that of its parameters or random numbers in the model"); \
    return x;                                                                                                     \
  }

// A function of layers::body over the last axes: of values, and of types where `argument` declares its Options. What a
// window fits is said before and behind the extents.
#define MEGANEURA_WINDOW(call, axes, extents, body, argument, written, before, behind)     \
  template <value A, class Given>                                                          \
  [[nodiscard]] constexpr auto call(A x, Given options) {                                  \
    MEGANEURA_EXPECT((layers::body::takes(x.facts().type)),                                \
                     "meganeura: " #call "<" written ">(x): x must be floats; cast it", x) \
    MEGANEURA_EXPECT((layers::body::fits(x.facts().shape, options, axes)),                 \
                     "meganeura: " #call "<" written ">(x): " before extents behind, x)    \
    return detail::layer<layers::body>(fixed_text<"">{}, x, options, c<axes>);             \
  }                                                                                        \
  template <argument, value A>                                                             \
  [[nodiscard]] constexpr auto call(A x) {                                                 \
    return call(x, c<Options>);                                                            \
  }
