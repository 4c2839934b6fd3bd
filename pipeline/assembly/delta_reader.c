/* Reads records that only go on with a text, by the bytes that they are expected to have; see expected_record.py.
 *
 *     head ,"seq":N,"ts":N [,"dt":[N,...]] middle TEXT between TEXT ... behind [,"dt":[N,...]] tail
 *
 * `head`, `middle`, `between`, `behind` and `tail` are compared, N and TEXT are read, and there is nothing else: so a
 * record that is read here is JSON, and says what any reader of JSON finds in it. Whatever is out of the ordinary is
 * left to those: no error is raised for it, and nothing is read twice.
 *
 * N is an integer of at most MAX_INTEGER, in `dt` also a negative one. A TEXT has a character at least, is UTF-8, and has
 * no escapes but those of one letter. Every access is checked against the value's end.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <string.h>

#define MAX_INTEGER 9007199254740991LL /* turnmill.wire.envelope.MAX_INTEGER */
#define DIGITS 16
#define STACK 4096 /* bytes of text that need no memory of their own */

static const char SEQ[] = ",\"seq\":", TS[] = ",\"ts\":", DT[] = ",\"dt\":[";

typedef struct {
    const unsigned char *at, *end;
} Place;

/* Whether the next bytes are these; the place is behind them then. */
static inline bool passes(Place *place, const void *bytes, Py_ssize_t size)
{
    if (place->end - place->at < size || memcmp(place->at, bytes, (size_t)size) != 0)
        return false;
    place->at += size;
    return true;
}

static inline bool passes_object(Place *place, PyObject *bytes)
{
    return passes(place, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes));
}

/* A JSON integer from 0 on, without a sign; one with a fraction or an exponent fails at what must follow it. */
static inline bool reads_number(Place *place, long long *number)
{
    const unsigned char *first = place->at;
    long long found = 0;
    while (place->at < place->end && *place->at >= '0' && *place->at <= '9') {
        if (place->at - first == DIGITS)
            return false;
        found = found * 10 + (*place->at++ - '0');
    }
    if (place->at == first || (*first == '0' && place->at - first > 1) || found > MAX_INTEGER)
        return false;
    *number = found;
    return true;
}

/* The rest of an array of integers, at least one, and its bracket. */
static bool reads_times(Place *place, long long *first, long long *last, Py_ssize_t *count)
{
    for (*count = 0;;) {
        bool negative = passes(place, "-", 1);
        if (!reads_number(place, last))
            return false;
        if (negative)
            *last = -*last;
        if ((*count)++ == 0)
            *first = *last;
        if (!passes(place, ",", 1))
            return passes(place, "]", 1);
    }
}

/* What a JSON string holds, as far as its quote; `to` has room for all that is left. -> the number of bytes, -1 where
 * it is empty or out of the ordinary. UTF-8 is checked later, for all texts of a record together: so that none may
 * end what another has begun, none may begin within a character.
 */
static inline Py_ssize_t reads_text(Place *place, unsigned char *to, bool *ascii)
{
    static const char LETTERS[] = "\"\\/bfnrt", MEANT[] = "\"\\/\b\f\n\r\t";
    unsigned char *written = to;
    if (place->at < place->end && (*place->at & 0xC0) == 0x80)
        return -1;
    for (; place->at < place->end; place->at++) {
        unsigned char byte = *place->at;
        if (byte == '"')
            return written > to ? written - to : -1;
        if (byte < 0x20)
            return -1;
        if (byte == '\\') {
            const char *letter;
            if (++place->at == place->end || *place->at == 0 || (letter = strchr(LETTERS, *place->at)) == NULL)
                return -1;
            byte = (unsigned char)MEANT[letter - LETTERS];
        }
        if (byte >= 0x80)
            *ascii = false;
        *written++ = byte;
    }
    return -1;
}

/* All texts of a record, in one -> a new str; NULL, and no error, where one of them is out of the ordinary. */
static PyObject *reads_texts(Place *place, PyObject *between, PyObject *behind, Py_ssize_t *count)
{
    unsigned char small[STACK], *to = small;
    Py_ssize_t room = place->end - place->at, size = 0;
    PyObject *text = NULL;
    bool ascii = true;
    if (room > STACK && (to = PyMem_Malloc((size_t)room)) == NULL)
        return NULL;
    for (*count = 1;; ++*count) {
        Py_ssize_t more = reads_text(place, to + size, &ascii);
        if (more < 0)
            goto done;
        size += more;
        if (passes_object(place, behind))
            break;
        if (!passes_object(place, between))
            goto done;
    }
    if (ascii) {
        text = PyUnicode_New(size, 127);
        if (text != NULL)
            memcpy(PyUnicode_1BYTE_DATA(text), to, (size_t)size);
    } else {
        text = PyUnicode_DecodeUTF8((const char *)to, size, "strict");
    }
    if (text == NULL)
        PyErr_Clear();
done:
    if (to != small)
        PyMem_Free(to);
    return text;
}

/* The entry of `expecting` under the value's head; borrowed. NULL without an error where there is none. */
static PyObject *entry_of(PyObject *expecting, Place *place)
{
    const unsigned char *start = place->at, *comma;
    do {
        comma = memchr(place->at, ',', (size_t)(place->end - place->at));
        if (comma == NULL)
            return NULL;
        place->at = comma;
        if (passes(place, SEQ, sizeof SEQ - 1))
            break;
        place->at = comma + 1;
    } while (true);
    PyObject *head = PyBytes_FromStringAndSize((const char *)start, comma - start);
    if (head == NULL)
        return NULL;
    PyObject *entry = PyDict_GetItemWithError(expecting, head);
    Py_DECREF(head);
    return entry;
}

static PyObject *read_deltas(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyDict_CheckExact(arguments[0]) || !PyBytes_CheckExact(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "read_deltas takes a dict and bytes");
        return NULL;
    }
    const unsigned char *value = (const unsigned char *)PyBytes_AS_STRING(arguments[1]);
    Place place = {value, value + PyBytes_GET_SIZE(arguments[1])};
    PyObject *entry = entry_of(arguments[0], &place);
    if (entry == NULL) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    if (!PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) != 5) {
        PyErr_SetString(PyExc_TypeError, "an entry is (middle, between, behind, tail, what it stands for)");
        return NULL;
    }
    for (Py_ssize_t n = 0; n < 4; n++) {
        if (!PyBytes_CheckExact(PyTuple_GET_ITEM(entry, n))) {
            PyErr_SetString(PyExc_TypeError, "the first four of an entry are bytes");
            return NULL;
        }
    }
    long long seq, ts, first = 0, last = 0;
    Py_ssize_t times = 0, texts;
    if (!reads_number(&place, &seq) || !passes(&place, TS, sizeof TS - 1) || !reads_number(&place, &ts))
        Py_RETURN_NONE;
    if (passes(&place, DT, sizeof DT - 1) && !reads_times(&place, &first, &last, &times))
        Py_RETURN_NONE;
    if (!passes_object(&place, PyTuple_GET_ITEM(entry, 0)))
        Py_RETURN_NONE;
    PyObject *text = reads_texts(&place, PyTuple_GET_ITEM(entry, 1), PyTuple_GET_ITEM(entry, 2), &texts);
    if (text == NULL)
        Py_RETURN_NONE;
    bool whole = !passes(&place, DT, sizeof DT - 1) || reads_times(&place, &first, &last, &times);
    whole = whole && passes_object(&place, PyTuple_GET_ITEM(entry, 3)) && place.at == place.end;
    if (!whole || (times > 0 && times != texts)) {
        Py_DECREF(text);
        Py_RETURN_NONE;
    }
    PyObject *said = PyTuple_New(6); /* by hand: Py_BuildValue takes three times as long */
    if (said == NULL) {
        Py_DECREF(text);
        return NULL;
    }
    PyTuple_SET_ITEM(said, 0, Py_NewRef(PyTuple_GET_ITEM(entry, 4)));
    PyTuple_SET_ITEM(said, 1, PyLong_FromLongLong(seq));
    PyTuple_SET_ITEM(said, 2, PyLong_FromLongLong(ts + first));
    PyTuple_SET_ITEM(said, 3, PyLong_FromLongLong(ts + last));
    PyTuple_SET_ITEM(said, 4, PyLong_FromSsize_t(texts));
    PyTuple_SET_ITEM(said, 5, text);
    for (Py_ssize_t n = 1; n < 5; n++) {
        if (PyTuple_GET_ITEM(said, n) == NULL) {
            Py_DECREF(said);
            return NULL;
        }
    }
    return said;
}

static PyMethodDef METHODS[] = {
    {"read_deltas", (PyCFunction)(void (*)(void))read_deltas, METH_FASTCALL,
     "(what records are expected, by their heads; a record's value) -> what it says, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "delta_reader", NULL, 0, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_delta_reader(void)
{
    return PyModuleDef_Init(&MODULE);
}
