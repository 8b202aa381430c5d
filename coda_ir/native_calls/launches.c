/* Kernels with their parameters, in which addresses of tensors are marked, and the launch of all. */

enum { MAP_BYTES = 128, MAP_ALIGNMENT = 64 };

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
static int (*is_capturing)(void *, int *);

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

/* Structures that a bytes object holds. */
typedef struct {
  const launch_t *launches;
  const uint32_t *parameters; /* offsets in the block */
  const pointer_t *pointers, *maps;
  Py_ssize_t launch_count, parameter_count, pointer_count, map_count, block_size;
  uint64_t *map_addresses;
  uint8_t *memory, *block; /* an aligned place in `memory` */
} program_t;

static uint8_t *aligned(uint8_t *memory) {
  return memory + (MAP_ALIGNMENT - (uintptr_t)memory % MAP_ALIGNMENT) % MAP_ALIGNMENT;
}

/* Write addresses that changed into the descriptors; an error of CUDA or 0. */
static int move_maps(program_t *self, const uint64_t *addresses) {
  for (Py_ssize_t i = 0; i < self->map_count; i++) {
    const pointer_t *map = &self->maps[i];
    uint64_t address = addresses[map->tensor] + map->distance;
    if (address == self->map_addresses[i]) continue;
    self->map_addresses[i] = 0;
    int error = replace_address(self->block + map->offset, (void *)address);
    if (error) return error;
    self->map_addresses[i] = address;
  }
  return 0;
}

static int launch_one(const program_t *self, const launch_t *launch, uint8_t *block, void **values,
                      void *stream) {
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

/* Launch all kernels; 0, or an error of CUDA and the kernel that has it. Meanwhile other threads may
   run, and call the same program: each call has its parameters by itself. Negative for no memory. */
static int launch_all(program_t *self, const uint64_t *addresses, void *stream,
                      Py_ssize_t *kernel) {
  *kernel = 0;
  int error = move_maps(self, addresses);
  if (error) return error;
  size_t values_size = (self->parameter_count + 1) * sizeof(void *);
  uint8_t *memory = PyMem_Malloc(values_size + self->block_size + MAP_ALIGNMENT);
  if (memory == NULL) return -1;
  void **values = (void **)memory;
  uint8_t *block = aligned(memory + values_size);
  memcpy(block, self->block, self->block_size);
  for (Py_ssize_t i = 0; i < self->pointer_count; i++) {
    const pointer_t *pointer = &self->pointers[i];
    uint64_t address = addresses[pointer->tensor] + pointer->distance;
    memcpy(block + pointer->offset, &address, sizeof address);
  }
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t i = 0; i < self->launch_count && !error; i++) {
    *kernel = i;
    error = launch_one(self, &self->launches[i], block, values, stream);
  }
  Py_END_ALLOW_THREADS;
  PyMem_Free(memory);
  return error;
}

/* Making a program */

/* The structures of a bytes object, which has to be kept; NULL with an exception. */
static const void *unpacked(PyObject *bytes, Py_ssize_t size, Py_ssize_t *count) {
  if (!PyBytes_CheckExact(bytes) || PyBytes_GET_SIZE(bytes) % size) {
    PyErr_SetString(PyExc_ValueError, "structures are packed in another way");
    return NULL;
  }
  *count = PyBytes_GET_SIZE(bytes) / size;
  return PyBytes_AS_STRING(bytes);
}

static int are_inside(const program_t *self, const pointer_t *pointers, Py_ssize_t count,
                      Py_ssize_t size, Py_ssize_t alignment, Py_ssize_t tensor_count) {
  for (Py_ssize_t i = 0; i < count; i++)
    if (pointers[i].tensor >= tensor_count || pointers[i].offset + size > self->block_size ||
        pointers[i].offset % alignment)
      return 0;
  return 1;
}

static int is_sound(const program_t *self, Py_ssize_t tensor_count) {
  for (Py_ssize_t i = 0; i < self->launch_count; i++) {
    const launch_t *launch = &self->launches[i];
    if ((Py_ssize_t)launch->first + launch->count > self->parameter_count) return 0;
  }
  for (Py_ssize_t i = 0; i < self->parameter_count; i++)
    if (self->parameters[i] >= self->block_size) return 0;
  return are_inside(self, self->pointers, self->pointer_count, 8, 8, tensor_count) &&
         are_inside(self, self->maps, self->map_count, MAP_BYTES, MAP_ALIGNMENT, tensor_count);
}

/* Of what `Block.packed` gives, in recording.py; 0 with an exception. */
static int make_program(program_t *self, PyObject *packed, Py_ssize_t tensor_count) {
  PyObject *launches, *parameters, *pointers, *maps, *block;
  if (!PyArg_ParseTuple(packed, "OOOOO", &launches, &parameters, &pointers, &maps, &block))
    return 0;
  self->launches = unpacked(launches, sizeof(launch_t), &self->launch_count);
  self->parameters = unpacked(parameters, sizeof(uint32_t), &self->parameter_count);
  self->pointers = unpacked(pointers, sizeof(pointer_t), &self->pointer_count);
  self->maps = unpacked(maps, sizeof(pointer_t), &self->map_count);
  const void *bytes = unpacked(block, 1, &self->block_size);
  if (PyErr_Occurred()) return 0;
  if (!is_sound(self, tensor_count)) {
    PyErr_SetString(PyExc_ValueError, "what was packed does not fit together");
    return 0;
  }
  self->memory = PyMem_Malloc(self->block_size + MAP_ALIGNMENT);
  self->map_addresses = PyMem_Calloc(self->map_count + 1, sizeof *self->map_addresses);
  if (self->memory == NULL || self->map_addresses == NULL) {
    PyErr_NoMemory();
    return 0;
  }
  self->block = aligned(self->memory);
  memcpy(self->block, bytes, self->block_size);
  return 1;
}

static void free_program(program_t *self) {
  PyMem_Free(self->memory);
  PyMem_Free(self->map_addresses);
}
