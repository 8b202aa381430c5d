/* Calls that are like earlier ones, in one function: it checks the arguments, allocates the results
   and launches the kernels. See __init__.py.

   Nothing here trusts a caller: what is not exactly like the recorded call gives None, and Python
   does the call. PyTorch is asked through its C functions for compiled models (aoti_torch_...), which
   give an error code where C++ would throw. No tensor and no address is kept, but for the addresses
   in descriptors, which are compared. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_RANK = 8, MOST_TENSORS = 256, MAP_BYTES = 128, MAP_ALIGNMENT = 64, ADDRESS_ALIGNMENT = 16 };

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

/* Of cuda.h. */
typedef struct {
  uint32_t id, padding;
  union {
    uint8_t bytes[64];
    int32_t number;
  } value;
} attribute_t;

typedef struct {
  uint32_t grid[3], block[3], shared;
  void *stream;
  attribute_t *attributes;
  uint32_t attribute_count;
} config_t;

enum { COOPERATIVE = 2, PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

static int (*launch_kernel)(const config_t *, void *, void **, void **);
static int (*replace_address)(void *, void *);
static int (*current_context)(void **);

static PyObject *tensor_type, *parameter_type;
enum { SETTINGS = 3 };
static PyObject *setting_names[SETTINGS], *calls_name;
static PyGetSetDef *implementation, *requires_grad;

/* What a tensor is, and where. */
typedef struct {
  int32_t dtype, device_type, device_index;
  int64_t rank, sizes[MOST_RANK], strides[MOST_RANK];
} kind_t;

typedef struct {
  uint64_t function;
  uint32_t grid[3], threads, shared, is_cooperative, is_dependent;
  uint32_t first, count; /* of its parameters */
} launch_t;

/* Where the address of a tensor, plus a distance, is in the block of parameters. */
typedef struct {
  uint32_t offset, tensor;
  uint64_t distance;
} pointer_t;

/* A call that was recorded. */
typedef struct {
  PyObject_HEAD
  Py_ssize_t argument_count, allocation_count, result_count;
  kind_t *kinds;          /* of the arguments */
  Py_ssize_t *results;    /* places among the arguments and what is allocated */
  PyObject *allocations;  /* tuples of arguments of `allocate`: results, then temporaries */
  PyObject *allocate, *current_device, *device, *current_stream, *settings, *fail, *keep;
  void *context;
  Py_ssize_t launch_count, parameter_count, pointer_count, map_count, block_size;
  launch_t *launches;
  uint32_t *parameters; /* offsets in the block */
  pointer_t *pointers, *maps;
  uint64_t *map_addresses;
  uint8_t *memory, *block;
} recorded_t;

static int read_kind(PyObject *tensor, tensor_t *handle, kind_t *kind) {
  if (Py_TYPE(tensor) != (PyTypeObject *)tensor_type &&
      Py_TYPE(tensor) != (PyTypeObject *)parameter_type)
    return 0;
  PyObject *number = implementation->get(tensor, implementation->closure);
  *handle = number == NULL ? NULL : PyLong_AsVoidPtr(number);
  Py_XDECREF(number);
  if (*handle == NULL) {
    PyErr_Clear();
    return 0;
  }
  int64_t *sizes, *strides;
  if (get_dim(handle, &kind->rank) || kind->rank > MOST_RANK || get_sizes(handle, &sizes) ||
      get_strides(handle, &strides) || get_dtype(handle, &kind->dtype) ||
      get_device_type(handle, &kind->device_type) || get_device_index(handle, &kind->device_index))
    return 0;
  memcpy(kind->sizes, sizes, kind->rank * sizeof *sizes);
  memcpy(kind->strides, strides, kind->rank * sizeof *strides);
  return 1;
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
         !get_data_ptr(&handle, (void **)address) && *address % ADDRESS_ALIGNMENT == 0;
}

/* Whether a call with the tensor would have to be recorded by autograd. */
static int is_differentiated(PyObject *tensor) {
  PyObject *value = requires_grad->get(tensor, requires_grad->closure);
  int is_required = value == NULL ? -1 : PyObject_IsTrue(value);
  Py_XDECREF(value);
  if (is_required < 0) PyErr_Clear();
  return is_required != 0;
}

static int fit(const recorded_t *self, PyObject *const *tensors, uint64_t *addresses) {
  for (Py_ssize_t i = 0; i < self->argument_count; i++)
    if (!has_kind(tensors[i], &self->kinds[i], &addresses[i])) return 0;
  if (!grad_mode_is_enabled()) return 1;
  for (Py_ssize_t i = 0; i < self->argument_count; i++)
    if (is_differentiated(tensors[i])) return 0;
  return 1;
}

/* Whether the device is the current one. Negative with an exception. */
static int is_on_device(const recorded_t *self) {
  void *context = NULL;
  if (current_context(&context) || context == NULL || context != self->context) return 0;
  PyObject *device = PyObject_CallNoArgs(self->current_device);
  if (device == NULL) return -1;
  int is_same = PyObject_RichCompareBool(device, self->device, Py_EQ);
  Py_DECREF(device);
  return is_same;
}

/* Whether a setting of Triton is on: a hook that is a chain may be empty. Negative with an
   exception. */
static int is_on(PyObject *settings, PyObject *name) {
  PyObject *value = PyObject_GetAttr(settings, name);
  if (value == NULL || value == Py_None || value == Py_False) {
    Py_XDECREF(value);
    return value == NULL ? -1 : 0;
  }
  PyObject *chain = PyObject_GetAttr(value, calls_name);
  if (chain == NULL) PyErr_Clear();
  int is_true = PyObject_IsTrue(chain == NULL ? value : chain);
  Py_XDECREF(chain);
  Py_DECREF(value);
  return is_true;
}

/* Whether someone wants to see each launch, or to find errors. Negative with an exception. */
static int is_watched(const recorded_t *self) {
  for (int i = 0; i < SETTINGS; i++) {
    int is_set = is_on(self->settings, setting_names[i]);
    if (is_set) return is_set;
  }
  return 0;
}

/* Allocates what the call needs; 0 with an exception. */
static int allocate_all(const recorded_t *self, PyObject **tensors, uint64_t *addresses) {
  for (Py_ssize_t i = 0; i < self->allocation_count; i++) {
    PyObject *arguments = PyTuple_GET_ITEM(self->allocations, i);
    tensors[i] = PyObject_Vectorcall(self->allocate, &PyTuple_GET_ITEM(arguments, 0),
                                     PyTuple_GET_SIZE(arguments), NULL);
    if (tensors[i] == NULL) return 0;
    tensor_t handle;
    kind_t kind;
    if (!read_kind(tensors[i], &handle, &kind) || get_data_ptr(&handle, (void **)&addresses[i]) ||
        addresses[i] % ADDRESS_ALIGNMENT) {
      PyErr_SetString(PyExc_RuntimeError, "memory was allocated that kernels cannot use");
      return 0;
    }
  }
  return 1;
}

/* The parameters of all launches for these addresses; NULL with an exception. */
static uint8_t *make_block(recorded_t *self, const uint64_t *addresses, uint8_t **memory) {
  for (Py_ssize_t i = 0; i < self->map_count; i++) {
    const pointer_t *map = &self->maps[i];
    uint64_t address = addresses[map->tensor] + map->distance;
    if (address == self->map_addresses[i]) continue;
    int error = replace_address(self->block + map->offset, (void *)address);
    if (error) {
      self->map_addresses[i] = 0;
      PyErr_Format(PyExc_RuntimeError, "a descriptor was refused (CUDA error %d)", error);
      return NULL;
    }
    self->map_addresses[i] = address;
  }
  *memory = PyMem_Malloc(self->block_size + MAP_ALIGNMENT);
  if (*memory == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  uintptr_t start = (uintptr_t)*memory;
  uint8_t *block = *memory + (MAP_ALIGNMENT - start % MAP_ALIGNMENT) % MAP_ALIGNMENT;
  memcpy(block, self->block, self->block_size);
  for (Py_ssize_t i = 0; i < self->pointer_count; i++) {
    const pointer_t *pointer = &self->pointers[i];
    uint64_t address = addresses[pointer->tensor] + pointer->distance;
    memcpy(block + pointer->offset, &address, sizeof address);
  }
  return block;
}

static int launch_one(const recorded_t *self, const launch_t *launch, uint8_t *block,
                      void **values, void *stream) {
  attribute_t attributes[2];
  uint32_t count = 0;
  memset(attributes, 0, sizeof attributes);
  if (launch->is_dependent) attributes[count++].id = PROGRAMMATIC_STREAM_SERIALIZATION;
  if (launch->is_cooperative) attributes[count++].id = COOPERATIVE;
  for (uint32_t i = 0; i < count; i++) attributes[i].value.number = 1;
  config_t config = {{launch->grid[0], launch->grid[1], launch->grid[2]},
                     {launch->threads, 1, 1},
                     launch->shared,
                     stream,
                     attributes,
                     count};
  for (uint32_t i = 0; i < launch->count; i++)
    values[i] = block + self->parameters[launch->first + i];
  return launch_kernel(&config, (void *)launch->function, values, NULL);
}

/* Launches all kernels; 0 with an exception. Other threads may run meanwhile. */
static int launch_all(recorded_t *self, const uint64_t *addresses, void *stream) {
  uint8_t *memory = NULL, *block = make_block(self, addresses, &memory);
  if (block == NULL) return 0;
  void **values = PyMem_Malloc((self->parameter_count + 1) * sizeof *values);
  if (values == NULL) {
    PyMem_Free(memory);
    PyErr_NoMemory();
    return 0;
  }
  int error = 0;
  Py_ssize_t place = 0;
  Py_BEGIN_ALLOW_THREADS;
  while (place < self->launch_count && !error)
    error = launch_one(self, &self->launches[place++], block, values, stream);
  Py_END_ALLOW_THREADS;
  PyMem_Free(values);
  PyMem_Free(memory);
  if (!error) return 1;
  PyObject *raised = PyObject_CallFunction(self->fail, "ni", place - 1, error);
  Py_XDECREF(raised);
  if (!PyErr_Occurred()) PyErr_Format(PyExc_RuntimeError, "a launch failed (%d)", error);
  return 0;
}

static PyObject *results_of(const recorded_t *self, PyObject *const *tensors) {
  PyObject *results = PyTuple_New(self->result_count);
  for (Py_ssize_t i = 0; results != NULL && i < self->result_count; i++)
    PyTuple_SET_ITEM(results, i, Py_NewRef(tensors[self->results[i]]));
  return results;
}

/* The results of a call whose arguments fit: `tensors` has space for what is allocated. */
static PyObject *run(recorded_t *self, PyObject **tensors, uint64_t *addresses) {
  int is_possible = is_on_device(self);
  int is_impossible = is_possible > 0 ? is_watched(self) : 0;
  if (is_possible < 0 || is_impossible < 0) return NULL;
  if (!is_possible || is_impossible) Py_RETURN_NONE;
  PyObject *number = PyObject_CallOneArg(self->current_stream, self->device);
  void *stream = number == NULL ? NULL : PyLong_AsVoidPtr(number);
  Py_XDECREF(number);
  if (PyErr_Occurred()) return NULL;
  PyObject *results = NULL, **allocated = tensors + self->argument_count;
  memset(allocated, 0, self->allocation_count * sizeof *allocated);
  if (allocate_all(self, allocated, addresses + self->argument_count) &&
      launch_all(self, addresses, stream))
    results = results_of(self, tensors);
  for (Py_ssize_t i = 0; i < self->allocation_count; i++) Py_XDECREF(allocated[i]);
  return results;
}

/* Recorded */

static void recorded_dealloc(recorded_t *self) {
  PyMem_Free(self->kinds);
  PyMem_Free(self->results);
  PyMem_Free(self->launches);
  PyMem_Free(self->parameters);
  PyMem_Free(self->pointers);
  PyMem_Free(self->maps);
  PyMem_Free(self->map_addresses);
  PyMem_Free(self->memory);
  Py_XDECREF(self->allocations);
  Py_XDECREF(self->allocate);
  Py_XDECREF(self->current_device);
  Py_XDECREF(self->device);
  Py_XDECREF(self->current_stream);
  Py_XDECREF(self->settings);
  Py_XDECREF(self->fail);
  Py_XDECREF(self->keep);
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

/* A copy of packed structures; NULL with an exception. */
static void *copied(Py_buffer *buffer, Py_ssize_t size, Py_ssize_t *count) {
  if (buffer->len % size) {
    PyErr_SetString(PyExc_ValueError, "structures are packed with another size");
    return NULL;
  }
  *count = buffer->len / size;
  void *copy = PyMem_Malloc(buffer->len + 1);
  if (copy == NULL) return PyErr_NoMemory();
  return memcpy(copy, buffer->buf, buffer->len);
}

static int are_inside(const recorded_t *self, const pointer_t *pointers, Py_ssize_t count,
                      uint32_t size) {
  Py_ssize_t tensor_count = self->argument_count + self->allocation_count;
  for (Py_ssize_t i = 0; i < count; i++)
    if (pointers[i].tensor >= tensor_count ||
        (Py_ssize_t)pointers[i].offset + size > self->block_size ||
        (size == MAP_BYTES && pointers[i].offset % MAP_ALIGNMENT))
      return 0;
  return 1;
}

/* Whether what was packed stays inside of the block. */
static int is_sound(const recorded_t *self) {
  for (Py_ssize_t i = 0; i < self->launch_count; i++) {
    const launch_t *launch = &self->launches[i];
    if ((Py_ssize_t)launch->first + launch->count > self->parameter_count) return 0;
  }
  for (Py_ssize_t i = 0; i < self->parameter_count; i++)
    if (self->parameters[i] >= self->block_size) return 0;
  for (Py_ssize_t i = 0; i < self->result_count; i++)
    if (self->results[i] < 0 || self->results[i] >= self->argument_count + self->allocation_count)
      return 0;
  for (Py_ssize_t i = 0; i < self->allocation_count; i++)
    if (!PyTuple_CheckExact(PyTuple_GET_ITEM(self->allocations, i))) return 0;
  return are_inside(self, self->pointers, self->pointer_count, sizeof(uint64_t)) &&
         are_inside(self, self->maps, self->map_count, MAP_BYTES);
}

static int take_block(recorded_t *self, const Py_buffer *block) {
  self->block_size = block->len;
  self->memory = PyMem_Malloc(block->len + MAP_ALIGNMENT);
  self->map_addresses = PyMem_Calloc(self->map_count + 1, sizeof *self->map_addresses);
  if (self->memory == NULL || self->map_addresses == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  uintptr_t start = (uintptr_t)self->memory;
  self->block = self->memory + (MAP_ALIGNMENT - start % MAP_ALIGNMENT) % MAP_ALIGNMENT;
  memcpy(self->block, block->buf, block->len);
  return 1;
}

static int take_results(recorded_t *self, PyObject *results) {
  self->result_count = PyTuple_GET_SIZE(results);
  self->results = PyMem_Malloc((self->result_count + 1) * sizeof *self->results);
  if (self->results == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  for (Py_ssize_t i = 0; i < self->result_count; i++)
    self->results[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(results, i));
  return !PyErr_Occurred();
}

static int take_kinds(recorded_t *self, PyObject *arguments) {
  self->argument_count = PyTuple_GET_SIZE(arguments);
  self->kinds = PyMem_Calloc(self->argument_count + 1, sizeof *self->kinds);
  if (self->kinds == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  for (Py_ssize_t i = 0; i < self->argument_count; i++) {
    tensor_t handle;
    if (!read_kind(PyTuple_GET_ITEM(arguments, i), &handle, &self->kinds[i])) {
      PyErr_SetString(PyExc_TypeError, "an argument is not a plain tensor");
      return 0;
    }
  }
  return 1;
}

static int take_all(recorded_t *self, PyObject *arguments, PyObject *results, Py_buffer *buffers) {
  if (!take_kinds(self, arguments) || !take_results(self, results)) return 0;
  self->launches = copied(&buffers[0], sizeof(launch_t), &self->launch_count);
  self->parameters = copied(&buffers[1], sizeof(uint32_t), &self->parameter_count);
  self->pointers = copied(&buffers[2], sizeof(pointer_t), &self->pointer_count);
  self->maps = copied(&buffers[3], sizeof(pointer_t), &self->map_count);
  if (!self->launches || !self->parameters || !self->pointers || !self->maps) return 0;
  if (!take_block(self, &buffers[4])) return 0;
  if (current_context(&self->context) || self->context == NULL) {
    PyErr_SetString(PyExc_RuntimeError, "no device is current");
    return 0;
  }
  if (is_sound(self)) return 1;
  PyErr_SetString(PyExc_ValueError, "what was packed does not fit together");
  return 0;
}

static PyObject *recorded_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *arguments, *results, *allocations, *functions[7];
  Py_buffer buffers[5];
  if (!PyArg_ParseTuple(args, "O!O!O!(OOOOOOO)(y*y*y*y*y*)", &PyTuple_Type, &arguments,
                        &PyTuple_Type, &results, &PyTuple_Type, &allocations, &functions[0],
                        &functions[1], &functions[2], &functions[3], &functions[4], &functions[5],
                        &functions[6], &buffers[0], &buffers[1], &buffers[2], &buffers[3],
                        &buffers[4]))
    return NULL;
  recorded_t *self = (recorded_t *)type->tp_alloc(type, 0);
  if (self != NULL) {
    PyObject **members[] = {&self->allocate,       &self->current_device, &self->device,
                            &self->current_stream, &self->settings,        &self->fail,
                            &self->keep};
    for (int i = 0; i < 7; i++) *members[i] = Py_NewRef(functions[i]);
    self->allocations = Py_NewRef(allocations);
    self->allocation_count = PyTuple_GET_SIZE(allocations);
    if (!take_all(self, arguments, results, buffers)) Py_CLEAR(self);
  }
  for (int i = 0; i < 5; i++) PyBuffer_Release(&buffers[i]);
  return (PyObject *)self;
}

static PyType_Slot recorded_slots[] = {
    {Py_tp_new, recorded_new}, {Py_tp_dealloc, recorded_dealloc}, {0, NULL}};
static PyType_Spec recorded_spec = {"coda_ir.native_calls.Recorded", sizeof(recorded_t), 0,
                                    Py_TPFLAGS_DEFAULT, recorded_slots};
static PyTypeObject *recorded_type;

/* The module */

/* The tensors in order, of which no reference is taken; 0 where they have other names. */
static int in_order(PyObject *names, PyObject *args, PyObject *kwargs, PyObject **tensors) {
  Py_ssize_t given = PyTuple_GET_SIZE(args), count = PyTuple_GET_SIZE(names);
  Py_ssize_t named = kwargs == Py_None ? 0 : PyDict_GET_SIZE(kwargs);
  if (given + named != count) return 0;
  for (Py_ssize_t i = 0; i < given; i++) tensors[i] = PyTuple_GET_ITEM(args, i);
  for (Py_ssize_t i = given; i < count; i++) {
    tensors[i] = PyDict_GetItemWithError(kwargs, PyTuple_GET_ITEM(names, i));
    if (tensors[i] == NULL) {
      PyErr_Clear();
      return 0;
    }
  }
  return 1;
}

/* The call in a list that has such arguments, as a new reference; NULL where there is none. */
static recorded_t *find(PyObject *list, Py_ssize_t arguments, PyObject *const *tensors,
                        uint64_t *addresses) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
    recorded_t *recorded = (recorded_t *)PyList_GET_ITEM(list, i);
    if (Py_TYPE(recorded) != recorded_type || recorded->argument_count != arguments ||
        arguments + recorded->allocation_count > MOST_TENSORS)
      continue;
    Py_INCREF(recorded);
    if (fit(recorded, tensors, addresses)) return recorded;
    Py_DECREF(recorded);
  }
  return NULL;
}

static const char repeat_doc[] =
    "repeat(names, recorded, args, kwargs): the results of the first of the recorded calls that has\n"
    "arguments like these, as a tuple; None where there is none, or where Python has to do it.";

static PyObject *repeat(PyObject *module, PyObject *const *given, Py_ssize_t count) {
  if (count != 4 || !PyTuple_CheckExact(given[0]) || !PyList_CheckExact(given[1]) ||
      !PyTuple_CheckExact(given[2]) || !(given[3] == Py_None || PyDict_CheckExact(given[3]))) {
    PyErr_SetString(PyExc_TypeError, "repeat takes a tuple, a list, a tuple, and a dict or None");
    return NULL;
  }
  PyObject *tensors[MOST_TENSORS];
  uint64_t addresses[MOST_TENSORS];
  Py_ssize_t arguments = PyTuple_GET_SIZE(given[0]);
  if (arguments > MOST_TENSORS || !in_order(given[0], given[2], given[3], tensors)) Py_RETURN_NONE;
  recorded_t *found = find(given[1], arguments, tensors, addresses);
  if (found == NULL) Py_RETURN_NONE;
  PyObject *results = run(found, tensors, addresses);
  Py_DECREF(found);
  return results;
}

static PyGetSetDef *getter_of(PyObject *type, const char *name) {
  PyObject *descriptor = PyObject_GetAttrString(type, name);
  PyGetSetDef *found = NULL;
  if (descriptor != NULL && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type))
    found = ((PyGetSetDescrObject *)descriptor)->d_getset; /* static data of PyTorch */
  else if (!PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "Tensor.%s is computed in another way", name);
  Py_XDECREF(descriptor);
  return found;
}

static const char setup_doc[] = "setup(Tensor, Parameter, addresses of functions)";

static PyObject *setup(PyObject *module, PyObject *args) {
  void **functions[] = {(void **)&get_data_ptr,     (void **)&get_dim,
                        (void **)&get_sizes,        (void **)&get_strides,
                        (void **)&get_dtype,        (void **)&get_device_type,
                        (void **)&get_device_index, (void **)&grad_mode_is_enabled,
                        (void **)&launch_kernel,    (void **)&replace_address,
                        (void **)&current_context};
  Py_ssize_t count = sizeof functions / sizeof *functions;
  PyObject *tensor, *parameter, *addresses;
  if (!PyArg_ParseTuple(args, "OOO!", &tensor, &parameter, &PyTuple_Type, &addresses)) return NULL;
  if (PyTuple_GET_SIZE(addresses) != count) {
    PyErr_Format(PyExc_ValueError, "%zd functions are needed", count);
    return NULL;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    *functions[i] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, i));
    if (*functions[i] == NULL) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a function has no address");
      return NULL;
    }
  }
  implementation = getter_of(tensor, "_cdata");
  requires_grad = getter_of(tensor, "requires_grad");
  if (implementation == NULL || requires_grad == NULL) return NULL;
  static const char *settings[SETTINGS] = {"debug", "launch_enter_hook", "launch_exit_hook"};
  for (int i = 0; i < SETTINGS; i++)
    if (!(setting_names[i] = PyUnicode_InternFromString(settings[i]))) return NULL;
  if (!(calls_name = PyUnicode_InternFromString("calls"))) return NULL;
  tensor_type = Py_NewRef(tensor);
  parameter_type = Py_NewRef(parameter);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"setup", setup, METH_VARARGS, setup_doc},
                                {"repeat", (PyCFunction)(void (*)(void))repeat, METH_FASTCALL,
                                 repeat_doc},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "coda_native_calls", NULL, -1,
                                        methods};

PyMODINIT_FUNC PyInit_coda_native_calls(void) {
  recorded_type = (PyTypeObject *)PyType_FromSpec(&recorded_spec);
  PyObject *module = recorded_type == NULL ? NULL : PyModule_Create(&definition);
  if (module != NULL && PyModule_AddType(module, recorded_type) < 0) Py_CLEAR(module);
  return module;
}
