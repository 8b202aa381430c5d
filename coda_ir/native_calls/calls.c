/* Recorded calls, and calls like them. Nothing here trusts a caller: what is not exactly like the
   recorded call gives None, and Python does the call. No tensor is kept. */

enum { MOST_TENSORS = 256 };

typedef struct {
  PyObject_HEAD
  Py_ssize_t argument_count, allocation_count, result_count;
  kind_t *kinds;           /* of the arguments */
  const uint32_t *results; /* places among the arguments and what is allocated */
  program_t program;
  void *context;
  PyObject *description; /* holds the following */
  PyObject *allocations; /* tuples of arguments of `allocate`: results, then temporaries */
  PyObject *allocate, *current_device, *device, *current_stream, *settings, *fail;
  PyObject *stream; /* the only one that it is for; None for all */
} recorded_t;

enum { SETTINGS = 3 };
static PyObject *setting_names[SETTINGS], *calls_name;

/* Whether the call is for the current stream: memory that is kept for one, is for calls that follow
   one another, but not for those that a graph is captured of. */
static int is_for_stream(const recorded_t *self) {
  if (self->stream == Py_None) return 1;
  PyObject *stream = PyObject_CallOneArg(self->current_stream, self->device);
  int is_same = stream != NULL && PyObject_RichCompareBool(stream, self->stream, Py_EQ) > 0;
  int status = 0;
  if (is_same) is_same = !is_capturing(PyLong_AsVoidPtr(stream), &status) && !status;
  Py_XDECREF(stream);
  PyErr_Clear();
  return is_same;
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
  if (current_context(&context) || context != self->context) return 0;
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

/* Allocate what the call needs; 0 with an exception. */
static int allocate_all(const recorded_t *self, PyObject **tensors, uint64_t *addresses) {
  for (Py_ssize_t i = 0; i < self->allocation_count; i++) {
    PyObject *arguments = PyTuple_GET_ITEM(self->allocations, i);
    tensors[i] = PyObject_Vectorcall(self->allocate, &PyTuple_GET_ITEM(arguments, 0),
                                     PyTuple_GET_SIZE(arguments), NULL);
    if (tensors[i] == NULL) return 0;
    tensor_t handle;
    if (!read_handle(tensors[i], &handle) || !read_address(&handle, &addresses[i])) {
      PyErr_SetString(PyExc_RuntimeError, "memory was allocated that kernels cannot use");
      return 0;
    }
  }
  return 1;
}

/* Launch all kernels; 0 with an exception. */
static int launch(recorded_t *self, const uint64_t *addresses, void *stream) {
  Py_ssize_t kernel;
  int error = launch_all(&self->program, addresses, stream, &kernel);
  if (error < 0) PyErr_NoMemory();
  if (error <= 0) return !error;
  Py_XDECREF(PyObject_CallFunction(self->fail, "ni", kernel, error));
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
      launch(self, addresses, stream))
    results = results_of(self, tensors);
  for (Py_ssize_t i = 0; i < self->allocation_count; i++) Py_XDECREF(allocated[i]);
  return results;
}

/* Recorded(arguments, description): see `record` in recording.py */

static void recorded_dealloc(recorded_t *self) {
  PyMem_Free(self->kinds);
  free_program(&self->program);
  Py_XDECREF(self->description);
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
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

static int take_description(recorded_t *self, PyObject *description) {
  PyObject *results, *packed, *kept;
  if (!PyArg_ParseTuple(description, "OO!O!OOOOOOOO", &results, &PyTuple_Type, &self->allocations,
                        &PyTuple_Type, &packed, &self->allocate, &self->current_device,
                        &self->device, &self->current_stream, &self->settings, &self->fail, &self->stream,
                        &kept))
    return 0;
  self->description = Py_NewRef(description);
  self->results = unpacked(results, sizeof *self->results, &self->result_count);
  if (self->results == NULL) return 0;
  self->allocation_count = PyTuple_GET_SIZE(self->allocations);
  Py_ssize_t count = self->argument_count + self->allocation_count;
  int is_right = count <= MOST_TENSORS;
  for (Py_ssize_t i = 0; i < self->result_count; i++) is_right &= self->results[i] < count;
  for (Py_ssize_t i = 0; i < self->allocation_count; i++)
    is_right &= PyTuple_CheckExact(PyTuple_GET_ITEM(self->allocations, i));
  if (current_context(&self->context) || self->context == NULL || !is_right) {
    PyErr_SetString(PyExc_ValueError, "the call cannot be recorded");
    return 0;
  }
  return make_program(&self->program, packed, count);
}

static PyObject *recorded_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *arguments, *description;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &arguments, &PyTuple_Type, &description))
    return NULL;
  recorded_t *self = (recorded_t *)type->tp_alloc(type, 0);
  if (self != NULL && !(take_kinds(self, arguments) && take_description(self, description)))
    Py_CLEAR(self);
  return (PyObject *)self;
}

static PyType_Slot recorded_slots[] = {
    {Py_tp_new, recorded_new}, {Py_tp_dealloc, recorded_dealloc}, {0, NULL}};
static PyType_Spec recorded_spec = {"coda_native_calls.Recorded", sizeof(recorded_t), 0,
                                    Py_TPFLAGS_DEFAULT, recorded_slots};
static PyTypeObject *recorded_type;

/* The module */

/* The tensors in order, of which no reference is taken; 0 where they have other names. */
static int in_order(PyObject *names, PyObject *args, PyObject *kwargs, PyObject **tensors) {
  Py_ssize_t given = PyTuple_GET_SIZE(args), count = PyTuple_GET_SIZE(names);
  Py_ssize_t named = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs);
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
    if (Py_TYPE(recorded) != recorded_type || recorded->argument_count != arguments) continue;
    Py_INCREF(recorded);
    if (fit(recorded, tensors, addresses) && is_for_stream(recorded)) return recorded;
    Py_DECREF(recorded);
  }
  return NULL;
}

/* Calls(names, recorded, otherwise): the calls of a function with arguments of these names. Called
   like the function, it does what Python would, or asks `otherwise` to. */

typedef struct {
  PyObject_HEAD
  PyObject *names, *recorded, *otherwise;
} calls_t;

static PyObject *repeat(const calls_t *self, PyObject *args, PyObject *kwargs) {
  PyObject *tensors[MOST_TENSORS];
  uint64_t addresses[MOST_TENSORS];
  Py_ssize_t count = PyTuple_GET_SIZE(self->names);
  if (!in_order(self->names, args, kwargs, tensors)) Py_RETURN_NONE;
  /* Other threads may change the dictionary. */
  for (Py_ssize_t i = 0; i < count; i++) Py_INCREF(tensors[i]);
  recorded_t *found = find(self->recorded, count, tensors, addresses);
  PyObject *results = found == NULL ? Py_NewRef(Py_None) : run(found, tensors, addresses);
  Py_XDECREF(found);
  for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(tensors[i]);
  return results;
}

static PyObject *calls_call(calls_t *self, PyObject *args, PyObject *kwargs) {
  PyObject *results = repeat(self, args, kwargs);
  if (results == Py_None) {
    Py_DECREF(results);
    return PyObject_Call(self->otherwise, args, kwargs);
  }
  if (results == NULL || PyTuple_GET_SIZE(results) != 1) return results;
  PyObject *result = Py_NewRef(PyTuple_GET_ITEM(results, 0));
  Py_DECREF(results);
  return result;
}

static const char repeat_doc[] =
    "repeat(args): the results of the first of the recorded calls that has arguments like these, as\n"
    "a tuple; None where Python has to do it.";

static PyObject *calls_repeat(calls_t *self, PyObject *args) {
  if (PyTuple_CheckExact(args)) return repeat(self, args, NULL);
  PyErr_SetString(PyExc_TypeError, "repeat takes a tuple");
  return NULL;
}

static PyObject *calls_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
  PyObject *names, *recorded, *otherwise;
  if (!PyArg_ParseTuple(args, "O!O!O", &PyTuple_Type, &names, &PyList_Type, &recorded, &otherwise))
    return NULL;
  if (PyTuple_GET_SIZE(names) > MOST_TENSORS) {
    PyErr_SetString(PyExc_ValueError, "too many arguments");
    return NULL;
  }
  calls_t *self = (calls_t *)type->tp_alloc(type, 0);
  if (self == NULL) return NULL;
  self->names = Py_NewRef(names);
  self->recorded = Py_NewRef(recorded);
  self->otherwise = Py_NewRef(otherwise);
  return (PyObject *)self;
}

static void calls_dealloc(calls_t *self) {
  Py_XDECREF(self->names);
  Py_XDECREF(self->recorded);
  Py_XDECREF(self->otherwise);
  PyTypeObject *type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

static PyMethodDef calls_methods[] = {{"repeat", (PyCFunction)calls_repeat, METH_O, repeat_doc},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot calls_slots[] = {{Py_tp_new, calls_new},
                                    {Py_tp_dealloc, calls_dealloc},
                                    {Py_tp_call, calls_call},
                                    {Py_tp_methods, calls_methods},
                                    {0, NULL}};
static PyType_Spec calls_spec = {"coda_native_calls.Calls", sizeof(calls_t), 0, Py_TPFLAGS_DEFAULT,
                                 calls_slots};

static int take_functions(PyObject *addresses) {
  void **functions[] = {(void **)&get_data_ptr,     (void **)&get_dim,
                        (void **)&get_sizes,        (void **)&get_strides,
                        (void **)&get_dtype,        (void **)&get_device_type,
                        (void **)&get_device_index, (void **)&grad_mode_is_enabled,
                        (void **)&launch_kernel,    (void **)&replace_address,
                        (void **)&current_context,  (void **)&is_capturing};
  Py_ssize_t count = sizeof functions / sizeof *functions;
  if (PyTuple_GET_SIZE(addresses) != count) {
    PyErr_Format(PyExc_ValueError, "%zd functions are needed", count);
    return 0;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    *functions[i] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, i));
    if (*functions[i] == NULL) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a function has no address");
      return 0;
    }
  }
  return 1;
}

static const char setup_doc[] = "setup(Tensor, Parameter, addresses of functions, some tensors): see library.py";

static PyObject *setup(PyObject *module, PyObject *args) {
  static const char *settings[SETTINGS] = {"debug", "launch_enter_hook", "launch_exit_hook"};
  PyObject *addresses, *tensor, *parameter, *tensors;
  if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyType_Type, &tensor, &PyType_Type, &parameter,
                        &PyTuple_Type, &addresses, &PyTuple_Type, &tensors) ||
      !take_functions(addresses))
    return NULL;
  tensor_type = (PyTypeObject *)Py_NewRef(tensor);
  parameter_type = (PyTypeObject *)Py_NewRef(parameter);
  if (!(implementation = attribute_of(tensor_type, "_cdata")) ||
      !(requires_grad = attribute_of(tensor_type, "requires_grad")))
    return NULL;
  implementation_offset = find_offset(tensors);
  for (int i = 0; i < SETTINGS; i++)
    if (!(setting_names[i] = PyUnicode_InternFromString(settings[i]))) return NULL;
  if (!(calls_name = PyUnicode_InternFromString("calls"))) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"setup", setup, METH_VARARGS, setup_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "coda_native_calls", NULL, -1,
                                        methods};

PyMODINIT_FUNC PyInit_coda_native_calls(void) {
  recorded_type = (PyTypeObject *)PyType_FromSpec(&recorded_spec);
  PyObject *calls = PyType_FromSpec(&calls_spec), *module = PyModule_Create(&definition);
  if (recorded_type == NULL || calls == NULL || module == NULL ||
      PyModule_AddType(module, recorded_type) < 0 ||
      PyModule_AddType(module, (PyTypeObject *)calls) < 0)
    return NULL;
  return module;
}
