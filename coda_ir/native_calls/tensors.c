/* What a tensor is, and where, by PyTorch's C functions for compiled models (aoti_torch_...), which
   give an error code where C++ would throw. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_RANK = 8, ADDRESS_ALIGNMENT = 16 };

/* An AtenTensorHandle is a pointer to an at::Tensor, which is a pointer to its implementation. */
typedef void *tensor_t;

static int32_t (*get_data_ptr)(tensor_t *, void **);
static int32_t (*get_dim)(tensor_t *, int64_t *);
static int32_t (*get_sizes)(tensor_t *, int64_t **);
static int32_t (*get_strides)(tensor_t *, int64_t **);
static int32_t (*get_dtype)(tensor_t *, int32_t *);
static int32_t (*get_device_type)(tensor_t *, int32_t *);
static int32_t (*get_device_index)(tensor_t *, int32_t *);
static _Bool (*grad_mode_is_enabled)(void);

static PyTypeObject *tensor_type, *parameter_type;
static PyGetSetDef *implementation, *requires_grad; /* attributes of Tensor */
static Py_ssize_t implementation_offset; /* where objects have what the attribute gives; or 0 */

typedef struct {
  int32_t dtype, device_type, device_index;
  int64_t rank, sizes[MOST_RANK], strides[MOST_RANK];
} kind_t;

/* The implementation that a tensor says it has; NULL where it does not say. */
static void *stated_implementation(PyObject *tensor) {
  PyObject *number = implementation->get(tensor, implementation->closure);
  void *stated = number == NULL ? NULL : PyLong_AsVoidPtr(number);
  Py_XDECREF(number);
  if (stated == NULL) PyErr_Clear();
  return stated;
}

/* An object is a header and an at::Tensor; in older versions a flag is between them, which says that
   the latter is not its own. */
enum { HEADER = sizeof(PyObject), BEHIND_FLAG = sizeof(PyObject) + sizeof(void *) };

/* Whether `tensor` is one, of no other class, and then its handle. */
static int read_handle(PyObject *tensor, tensor_t *handle) {
  if (Py_TYPE(tensor) != tensor_type && Py_TYPE(tensor) != parameter_type) return 0;
  const char *object = (const char *)tensor;
  if (implementation_offset == 0 || (implementation_offset == BEHIND_FLAG && object[HEADER]))
    *handle = stated_implementation(tensor);
  else
    *handle = *(void *const *)(object + implementation_offset);
  return *handle != NULL;
}

/* Find out where tensors have what they say, which takes longer: all of `tensors` have it there. */
static Py_ssize_t find_offset(PyObject *tensors) {
  static const Py_ssize_t offsets[] = {HEADER, BEHIND_FLAG};
  for (int i = 0; i < 2 && PyTuple_GET_SIZE(tensors); i++) {
    Py_ssize_t found = offsets[i];
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(tensors); j++) {
      PyObject *tensor = PyTuple_GET_ITEM(tensors, j);
      if (found + (Py_ssize_t)sizeof(void *) > Py_TYPE(tensor)->tp_basicsize ||
          *(void **)((char *)tensor + found) != stated_implementation(tensor))
        found = 0;
      if (found == 0) break;
    }
    if (found) return found;
  }
  return 0;
}

/* Whether `tensor` is one, of no other class, and then its handle and what it is. */
static int read_kind(PyObject *tensor, tensor_t *handle, kind_t *kind) {
  if (!read_handle(tensor, handle)) return 0;
  int64_t *sizes, *strides;
  if (get_dim(handle, &kind->rank) || kind->rank > MOST_RANK || get_sizes(handle, &sizes) ||
      get_strides(handle, &strides) || get_dtype(handle, &kind->dtype) ||
      get_device_type(handle, &kind->device_type) || get_device_index(handle, &kind->device_index))
    return 0;
  memcpy(kind->sizes, sizes, kind->rank * sizeof *sizes);
  memcpy(kind->strides, strides, kind->rank * sizeof *strides);
  return 1;
}

/* Whether kernels can use what is at the address of a tensor, and the address. */
static int read_address(tensor_t *handle, uint64_t *address) {
  return !get_data_ptr(handle, (void **)address) && *address % ADDRESS_ALIGNMENT == 0;
}

/* Whether a tensor is of a kind, and its address. */
static int has_kind(PyObject *tensor, const kind_t *expected, uint64_t *address) {
  tensor_t handle;
  kind_t kind;
  if (!read_kind(tensor, &handle, &kind)) return 0;
  return kind.rank == expected->rank && kind.dtype == expected->dtype &&
         kind.device_type == expected->device_type &&
         kind.device_index == expected->device_index &&
         !memcmp(kind.sizes, expected->sizes, kind.rank * sizeof *kind.sizes) &&
         !memcmp(kind.strides, expected->strides, kind.rank * sizeof *kind.strides) &&
         read_address(&handle, address);
}

/* Whether a call with the tensor would have to be recorded by autograd. */
static int is_differentiated(PyObject *tensor) {
  PyObject *value = requires_grad->get(tensor, requires_grad->closure);
  int is_required = value == NULL ? -1 : PyObject_IsTrue(value);
  Py_XDECREF(value);
  if (is_required < 0) PyErr_Clear();
  return is_required != 0;
}

static PyGetSetDef *attribute_of(PyTypeObject *type, const char *name) {
  PyObject *descriptor = PyObject_GetAttrString((PyObject *)type, name);
  PyGetSetDef *found = NULL;
  if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type))
    found = ((PyGetSetDescrObject *)descriptor)->d_getset; /* static data of PyTorch */
  else if (!PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "Tensor.%s is computed in another way", name);
  Py_XDECREF(descriptor);
  return found;
}
