"""The Python side of worker_shim by itself: what it makes of exceptions and of values that are no arrays."""
import sys
import unittest

import numpy as np

import gearbox_worker
from gearbox_worker import _host


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def failure_of(raise_it):
    try:
        raise_it()
    except BaseException as error:
        return _host.failure(error, __file__.rsplit("/", 1)[0])[:3]
    raise AssertionError("nothing was raised")


def raises(error):
    def raise_it():
        raise error
    return raise_it


class Failure(unittest.TestCase):
    def test_is_one_line_however_long_the_message(self):
        code, reason, where = failure_of(raises(ValueError("one\ntwo\n\nthree")))
        self.assertEqual((code, reason), (40, b"ValueError: one / two /  / three"))
        self.assertRegex(where, r"^host_test\.py:\d+$")

    def test_survives_an_exception_that_cannot_be_printed(self):
        code, reason, _ = failure_of(raises(Unprintable()))
        self.assertEqual(code, 40)
        self.assertIn(b"Unprintable", reason)

    def test_keeps_bytes_that_have_no_utf8_form_apart(self):
        _, reason, _ = failure_of(raises(ValueError("\ud800")))
        self.assertEqual(reason, b"ValueError: \\ud800")

    def test_knows_a_refused_request(self):
        self.assertEqual(failure_of(raises(gearbox_worker.BadInput("x")))[0], 10)
        self.assertEqual(failure_of(raises(gearbox_worker.BadPicture("x")))[0], 14)

    def test_knows_a_model_that_has_enough_to_do(self):
        def told(error):
            code, reason, _, again_ms = _host.failure(error, "/nowhere")
            return code, reason, again_ms
        self.assertEqual(told(gearbox_worker.Overloaded("no room", retry_after_ms=250)), (16, b"no room", 250))
        self.assertEqual(told(gearbox_worker.Overloaded())[2], 1000)
        for number, told_ms in ((-1, 0), (10 ** 12, 3600000), (2.7, 2), ("soon", 0), (None, 0), (float("inf"), 0)):
            self.assertEqual(told(gearbox_worker.Overloaded(retry_after_ms=number))[2], told_ms)
        self.assertEqual(told(gearbox_worker.BadInput("x"))[2], 0)

    def test_takes_no_number_that_a_model_makes_up(self):
        error = gearbox_worker.BadInput("x")
        error.code = 24
        self.assertEqual(failure_of(raises(error))[0], 40)


class Contiguous(unittest.TestCase):
    def test_gives_lists_the_declared_type_and_keeps_that_of_arrays(self):
        self.assertEqual(_host.contiguous([1, 2], "FP32").dtype, np.float32)
        self.assertEqual(_host.contiguous(np.ones(2), "FP32").dtype, np.float64)

    def test_takes_numbers_of_a_list_that_the_declared_type_can_hold(self):
        for value, dtype, expected in (
                ([1.0, -2.0], "INT8", [1, -2]), ([1, 0], "BOOL", [True, False]), (255, "UINT8", 255), ([0.1], "FP16", [np.float16(0.1)]),
                ([2**63], "UINT64", [2**63]), ([float("inf"), 1], "FP32", [np.inf, 1]), ([], "INT32", []), ([[1], [2]], "INT64", [[1], [2]]),
                ([True, 2], "INT8", [1, 2]), ([np.float64(3.0)], "INT16", [3]), (range(3), "UINT16", [0, 1, 2])):
            with self.subTest(value=value, dtype=dtype):
                array = _host.contiguous(value, dtype)
                self.assertEqual(array.dtype, np.dtype(_host.DTYPES[dtype]))
                self.assertEqual(array.tolist(), expected)

    def test_refuses_numbers_that_the_declared_type_cannot_hold(self):
        for value, dtype, said in (
                ([300, -300], "INT8", "INT8 cannot hold 300"), ([1.7, 2], "INT8", "INT8 cannot hold 1.7"), (-1, "UINT8", "UINT8 cannot hold -1"),
                ([-1], "UINT64", "UINT64 cannot hold -1"), ([2**63], "INT64", "INT64 cannot hold 9223372036854775808"),
                ([2.0**63], "INT64", "INT64 cannot hold 9.2"), ([1e300], "FP32", r"FP32 cannot hold 1e\+300"), ([70000], "FP16", "FP16 cannot hold 70000"),
                ([float("nan")], "INT32", "INT32 cannot hold nan"), ([2], "BOOL", "BOOL cannot hold 2"), ([10**40, 1], "INT64", "INT64 cannot hold 1000"),
                (None, "FP32", "None is no number"), ([None, 1], "FP32", "None is no number"), ("1.5", "FP32", "'1.5' is no number"),
                ([1j], "FP32", "1j is no number"), ([b"1"], "UINT8", "b'1' is no number")):
            with self.subTest(value=value, dtype=dtype), self.assertRaisesRegex(TypeError, said):
                _host.contiguous(value, dtype)

    def test_turns_the_byte_order_round(self):
        array = _host.contiguous(np.array([1, 2], ">i4"), "INT32")
        self.assertEqual(array.tobytes(), np.array([1, 2], "<i4").tobytes())

    def test_keeps_bits(self):
        bits = np.array([0x7FA00001, 0x80000000, 1], np.uint32)   # a signalling NaN, -0, a denormal
        strided = np.repeat(bits, 2).view(np.float32)[::2]
        self.assertEqual(_host.contiguous(strided, "FP32").view(np.uint32).tolist(), bits.tolist())

    def test_refuses_what_is_no_number(self):
        for value in (np.array([object()]), np.array(["a"]), np.array([1j])):
            with self.assertRaises(TypeError):
                _host.contiguous(value, "FP32")


class Texts(unittest.TestCase):
    def test_takes_text_and_bytes_in_any_shape(self):
        self.assertEqual(_host.texts(["\u00e4", b"\xff"]), ((2,), [b"\xc3\xa4", b"\xff"]))
        shape, elements = _host.texts(np.array([["a"], ["b"]]))
        self.assertEqual((shape, elements), ((2, 1), [b"a", b"b"]))

    def test_refuses_other_elements(self):
        with self.assertRaises(TypeError):
            _host.texts([1])

    def test_makes_objects_of_a_shape(self):
        array = _host.objects([b"a", b"b"], (2, 1))
        self.assertEqual((array.shape, array[1][0]), ((2, 1), b"b"))
        self.assertEqual(_host.zeros((2,), "BYTES").tolist(), [b"", b""])


class PackageFile(unittest.TestCase):
    def test_finds_a_file_and_names_what_is_missing(self):
        self.assertTrue(gearbox_worker.package_file("numpy", "__init__.py").endswith("__init__.py"))
        with self.assertRaisesRegex(FileNotFoundError, "no_such_package is not installed"):
            gearbox_worker.package_file("no_such_package", "x")
        with self.assertRaisesRegex(FileNotFoundError, "has no file x"):
            gearbox_worker.package_file("numpy", "x")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
