"""include/paceline.h in ctypes: structs and prototypes, and nothing else.

python/tests/test_ffi.py compares every line with the header.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
    sizeof,
)
from typing import Any

VERSION = "0.1.0"
ABI_VERSION = 2

BOX, DISCRETE = 1, 2
UINT8, FLOAT32, INT32 = 1, 2, 3
TERMINATED, TRUNCATED = 1, 2
RESET_TIMESTEPS, RESET_ENVS = 1, 2
SAVE_EXPERIENCE = 1
NEXT_STEP, SAME_STEP, DISABLED = 0, 1, 2


class Growable(Structure):
    """A struct that begins with its own size."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.struct_size = sizeof(self)


class Option(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("name", c_char_p),
        ("type", c_char_p),
        ("default_value", c_char_p),
        ("doc", c_char_p),
    ]


class Spec(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_uint32),
        ("dtype", c_uint32),
        ("ndim", c_uint32),
        ("shape", c_int64 * 4),
        ("n", c_int64),
        ("frame_stack", c_int64),
    ]


class Stats(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("num_timesteps", c_int64),
        ("total_timesteps", c_int64),
        ("updates", c_int64),
        ("updates_due", c_int64),
        ("episodes", c_int64),
        ("mean_return", c_double),
        ("mean_length", c_double),
        ("seconds_env", c_double),
        ("seconds_act", c_double),
        ("seconds_train", c_double),
        ("seconds_wait", c_double),
    ]


class Parameter(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("ndim", c_uint32),
        ("shape", c_int64 * 4),
        ("offset", c_size_t),
        ("size", c_size_t),
        ("name", c_char_p),
    ]


class Metric(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("name", c_char_p),
        ("unit", c_char_p),
        ("doc", c_char_p),
        ("value", c_double),
    ]


class ActOptions(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("sample", c_uint32),
        ("epsilon", c_double),
        ("seed", c_uint64),
        ("counter", c_uint64),
        ("action_masks", c_void_p),
        ("state", c_void_p),
        ("episode_starts", c_void_p),
    ]


class EvalOptions(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("sample", c_uint32),
        ("episodes", c_int64),
        ("epsilon", c_double),
        ("seed", c_uint64),
    ]


class Evaluation(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("reserved", c_uint32),
        ("episodes", c_int64),
        ("mean_return", c_double),
        ("std_return", c_double),
        ("min_return", c_double),
        ("max_return", c_double),
        ("mean_length", c_double),
    ]


class VecOptions(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("num_envs", c_uint32),
        ("batch_size", c_uint32),
        ("num_threads", c_uint32),
        ("autoreset", c_uint32),
        ("pin", c_int32),
        ("env_options", c_char_p),
    ]


class Rows(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("num_rows", c_uint32),
        ("obs", c_void_p),
        ("final_obs", c_void_p),
        ("rewards", c_void_p),
        ("terminated", c_void_p),
        ("truncated", c_void_p),
        ("started", c_void_p),
        ("env_ids", c_void_p),
        ("infos", POINTER(c_void_p)),
        ("final_infos", POINTER(c_void_p)),
        ("action_masks", c_void_p),
        ("final_action_masks", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
    ]


class ConsoleState(Growable):
    _fields_ = [
        ("struct_size", c_uint32),
        ("ended", c_uint32),
        ("lives", c_int32),
        ("mode", c_int32),
        ("difficulty", c_int32),
        ("pal", c_uint32),
        ("frame_number", c_int64),
        ("episode_frame_number", c_int64),
        ("height", c_uint32),
        ("width", c_uint32),
        ("game", c_char * 64),
    ]


STRUCTS: dict[str, type[Growable]] = {
    "paceline_option": Option,
    "paceline_spec": Spec,
    "paceline_stats": Stats,
    "paceline_parameter": Parameter,
    "paceline_metric": Metric,
    "paceline_act_options": ActOptions,
    "paceline_eval_options": EvalOptions,
    "paceline_evaluation": Evaluation,
    "paceline_vec_options": VecOptions,
    "paceline_rows": Rows,
    "paceline_console_state": ConsoleState,
}

STATUS = "status"  # a result of enum paceline_status: raised as an error unless 0

_handle, _out_handle, _text = c_void_p, POINTER(c_void_p), c_char_p
# A text that is the caller's to free must stay a pointer: c_char_p would copy
# it and forget where it was.
_out_text = POINTER(c_void_p)

# name: (result, arguments). What only C programs need is left out: tables of
# function pointers (Go never calls into Python).
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "paceline_status_str": (c_char_p, [c_int]),
    "paceline_last_error": (c_char_p, []),
    "paceline_last_error_index": (c_int64, []),
    "paceline_string_free": (None, [c_void_p]),
    "paceline_version": (c_char_p, []),
    "paceline_abi_version": (c_int, []),
    "paceline_build_info": (c_char_p, []),
    "paceline_methods": (STATUS, [_out_text]),
    "paceline_config_new": (STATUS, [_out_handle, _text]),
    "paceline_config_load": (STATUS, [_out_handle, _text]),
    "paceline_config_method": (STATUS, [POINTER(c_char_p), _handle]),
    "paceline_config_set": (STATUS, [_handle, _text, _text]),
    "paceline_config_get": (STATUS, [_out_text, _handle, _text]),
    "paceline_config_preset": (STATUS, [_handle, _text, _text]),
    "paceline_config_presets": (STATUS, [_out_text, _handle]),
    "paceline_config_describe": (STATUS, [POINTER(Option), _handle, c_size_t]),
    "paceline_config_free": (None, [_handle]),
    "paceline_trainer_new": (STATUS, [_out_handle, _handle]),
    "paceline_trainer_new_push": (STATUS, [_out_handle, _handle, POINTER(Spec), POINTER(Spec)]),
    "paceline_trainer_config": (STATUS, [_out_handle, _handle]),
    "paceline_trainer_spec": (STATUS, [POINTER(Spec), POINTER(Spec), _handle]),
    "paceline_trainer_describe": (STATUS, [_out_text, _handle]),
    "paceline_trainer_begin": (STATUS, [_handle, c_int64, c_uint32]),
    "paceline_trainer_run": (STATUS, [POINTER(Stats), _handle, c_int64, c_int64]),
    "paceline_trainer_stop": (STATUS, [_handle]),
    "paceline_trainer_stats": (STATUS, [POINTER(Stats), _handle]),
    "paceline_trainer_metric": (STATUS, [POINTER(Metric), _handle, c_size_t]),
    "paceline_trainer_notice": (STATUS, [_out_text, _handle]),
    "paceline_trainer_settle": (STATUS, [_handle, c_int64]),
    "paceline_trainer_parameter": (STATUS, [POINTER(Parameter), _handle, _text, c_size_t]),
    "paceline_trainer_get_parameters": (STATUS, [POINTER(c_float), c_size_t, POINTER(c_int64), _handle, _text]),
    "paceline_trainer_set_parameters": (STATUS, [_handle, _text, POINTER(c_float), c_size_t]),
    "paceline_trainer_hash": (STATUS, [_out_text, _handle, _text]),
    "paceline_trainer_save": (STATUS, [_handle, _text, c_uint32]),
    "paceline_trainer_load": (STATUS, [_handle, _text]),
    "paceline_trainer_free": (None, [_handle]),
    "paceline_trainer_act": (STATUS, [_handle, POINTER(Rows), c_void_p, c_int64]),
    "paceline_trainer_observe": (STATUS, [_handle, POINTER(Rows), c_int64]),
    "paceline_policy_load": (STATUS, [_out_handle, _text]),
    "paceline_policy_from_trainer": (STATUS, [_out_handle, _handle]),
    "paceline_policy_from_bytes": (STATUS, [_out_handle, c_void_p, c_size_t]),
    "paceline_policy_spec": (STATUS, [POINTER(Spec), POINTER(Spec), _handle]),
    "paceline_policy_describe": (STATUS, [_out_text, _handle]),
    "paceline_policy_act": (STATUS, [_handle, c_size_t, c_void_p, POINTER(ActOptions), c_void_p, POINTER(POINTER(c_float))]),
    "paceline_policy_evaluate": (STATUS, [POINTER(Evaluation), _handle, _text, _text, POINTER(EvalOptions)]),
    "paceline_policy_save": (STATUS, [_handle, _text]),
    "paceline_policy_to_bytes": (STATUS, [c_void_p, POINTER(c_size_t), _handle]),
    "paceline_policy_free": (None, [_handle]),
    "paceline_env_load": (STATUS, [_out_text, _text]),
    "paceline_env_names": (STATUS, [_out_text]),
    "paceline_vec_new": (STATUS, [_out_handle, _text, POINTER(VecOptions)]),
    "paceline_vec_spec": (STATUS, [POINTER(Spec), POINTER(Spec), _handle]),
    "paceline_vec_describe": (STATUS, [_out_text, _handle]),
    "paceline_vec_reset": (STATUS, [_handle, POINTER(c_uint64), POINTER(c_uint8), POINTER(Rows)]),
    "paceline_vec_step": (STATUS, [_handle, c_void_p, POINTER(Rows)]),
    "paceline_vec_offer": (STATUS, [_handle, POINTER(Rows)]),
    "paceline_vec_send": (STATUS, [_handle, POINTER(c_int32), c_size_t, c_void_p]),
    "paceline_vec_send_reset": (STATUS, [_handle, POINTER(c_int32), c_size_t, POINTER(c_uint64)]),
    "paceline_vec_recv": (STATUS, [_handle, c_int64]),
    "paceline_vec_drain": (STATUS, [_handle]),
    "paceline_vec_save": (STATUS, [c_void_p, POINTER(c_size_t), _handle, c_uint32]),
    "paceline_vec_restore": (STATUS, [_handle, c_uint32, c_void_p, c_size_t]),
    "paceline_vec_render": (STATUS, [POINTER(c_uint8), POINTER(c_size_t), POINTER(c_uint32), POINTER(c_uint32), _handle, c_uint32]),
    "paceline_vec_free": (None, [_handle]),
    "paceline_bench": (STATUS, [_out_text, _text, _text]),
    "paceline_console_new": (STATUS, [_out_handle, _text, _text, c_int, c_uint32, c_double, c_uint32]),
    "paceline_rom_folder": (STATUS, [_text]),
    "paceline_rom_identify": (STATUS, [_out_text, _text]),
    "paceline_console_set": (STATUS, [_handle, _text, _text]),
    "paceline_console_reset": (STATUS, [_handle]),
    "paceline_console_act": (STATUS, [POINTER(c_int32), _handle, c_int32, c_float]),
    "paceline_console_view": (STATUS, [POINTER(POINTER(ConsoleState)), _handle]),
    "paceline_console_list": (STATUS, [POINTER(c_int32), c_size_t, POINTER(c_size_t), _handle, c_uint32]),
    "paceline_console_ram": (STATUS, [POINTER(c_uint8), _handle]),
    "paceline_console_poke": (STATUS, [_handle, c_uint32, c_uint8]),
    "paceline_console_screen": (STATUS, [POINTER(c_uint8), c_size_t, _handle, c_uint32]),
    "paceline_console_save": (STATUS, [c_void_p, POINTER(c_size_t), _handle, c_int]),
    "paceline_console_restore": (STATUS, [_handle, c_void_p, c_size_t]),
    "paceline_console_free": (None, [_handle]),
}
