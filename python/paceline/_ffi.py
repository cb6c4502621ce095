"""The structs and prototypes of include/paceline.h in ctypes.

python/tests/test_ffi.py compares this file with the header.
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

ABI_VERSION = 2

BOX, DISCRETE, MULTI_DISCRETE, HYBRID = 1, 2, 3, 4
UINT8, FLOAT32, INT32 = 1, 2, 3
TERMINATED, TRUNCATED = 1, 2
RESET_TIMESTEPS, RESET_ENVS = 1, 2
SAVE_EXPERIENCE = 1
GRADIENT_NONE, GRADIENT_READY, GRADIENT_DROPPED, GRADIENT_LATER = 0, 1, 2, 3
NEXT_STEP, SAME_STEP, DISABLED = 0, 1, 2


class Growable(Structure):
    """A struct whose first field is its own size; subclasses list the other fields."""

    _fields_ = [("struct_size", c_uint32)]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.struct_size = sizeof(self)


def _each(names: str, kind: Any) -> list[tuple[str, Any]]:
    """Fields of one type."""
    return [(name, kind) for name in names.split()]


class Option(Growable):
    _fields_ = [("reserved", c_uint32), *_each("name type default_value doc", c_char_p)]


class Spec(Growable):
    _fields_ = [
        *_each("kind dtype ndim", c_uint32),
        ("shape", c_int64 * 4),
        *_each("n frame_stack", c_int64),
        ("branches", c_void_p),
        ("num_branches", c_int64),
        *_each("low high", c_void_p),
    ]
    kept: Any  # the arrays that branches, low and high point to


class Stats(Growable):
    _fields_ = [
        ("reserved", c_uint32),
        *_each("num_timesteps total_timesteps updates updates_due episodes", c_int64),
        *_each("mean_return mean_length seconds_env seconds_act seconds_train seconds_wait", c_double),
    ]


class Parameter(Growable):
    _fields_ = [("ndim", c_uint32), ("shape", c_int64 * 4), *_each("offset size", c_size_t), ("name", c_char_p)]


class Metric(Growable):
    _fields_ = [("reserved", c_uint32), *_each("name unit doc", c_char_p), ("value", c_double)]


class ActOptions(Growable):
    _fields_ = [
        ("sample", c_uint32),
        ("epsilon", c_double),
        *_each("seed counter", c_uint64),
        *_each("action_masks state episode_starts", c_void_p),
    ]


class EvalOptions(Growable):
    _fields_ = [
        ("sample", c_uint32),
        ("episodes", c_int64),
        ("epsilon", c_double),
        ("seed", c_uint64),
        *_each("returns lengths starts start_sizes", c_void_p),
        ("num_starts", c_size_t),
        ("max_frames", c_int64),
    ]


class Evaluation(Growable):
    _fields_ = [
        ("reserved", c_uint32),
        ("episodes", c_int64),
        *_each("mean_return std_return min_return max_return mean_length", c_double),
    ]


class VecOptions(Growable):
    _fields_ = [*_each("num_envs batch_size num_threads autoreset", c_uint32), ("pin", c_int32), ("env_options", c_char_p)]


class Rows(Growable):
    _fields_ = [
        ("num_rows", c_uint32),
        *_each("obs final_obs rewards terminated truncated started env_ids", c_void_p),
        *_each("infos final_infos", POINTER(c_void_p)),
        *_each("action_masks final_action_masks", c_void_p),
        *_each("device_type device_id", c_int32),
    ]


class Transitions(Growable):
    _fields_ = [("num_rows", c_uint32), *_each("obs next_obs actions rewards terminated next_masks", c_void_p)]


class StoreOptions(Growable):
    _fields_ = [
        *_each("centered eps_inside first_average", c_uint32),
        ("optimizer", c_char_p),
        *_each("eps decay beta1 beta2", c_double),
        *_each("first max_staleness", c_int64),
    ]


class Push(Growable):
    _fields_ = [("reserved", c_uint32), ("learning_rate", c_double), *_each("seen learner life step", c_int64)]


class Answer(Growable):
    _fields_ = [("duplicate", c_uint32), *_each("version lag", c_int64)]


class Gradient(Growable):
    _fields_ = [("state", c_uint32), *_each("number updates num_timesteps rows", c_int64), *_each("loss learning_rate", c_double)]


class Steps(Growable):
    _fields_ = [*_each("num_steps begins end", c_uint32), *_each("obs actions rewards next_masks", c_void_p)]


class Minibatch(Growable):
    _fields_ = [
        ("num_rows", c_uint32),
        *_each("obs next_obs actions rewards discounts weights next_masks identities errors", c_void_p),
    ]


class ConsoleState(Growable):
    _fields_ = [
        ("ended", c_uint32),
        *_each("lives mode difficulty", c_int32),
        ("pal", c_uint32),
        *_each("frame_number episode_frame_number", c_int64),
        *_each("height width", c_uint32),
        ("game", c_char * 64),
    ]


STATUS = "status"  # a result of enum paceline_status: other values than 0 raise an error

_handle, _out_handle, _text = c_void_p, POINTER(c_void_p), c_char_p
# The caller frees such a text. c_char_p would copy it and lose the pointer.
_out_text = POINTER(c_void_p)

# name: (result, arguments). Functions that take tables of function pointers are left out, because
# Go never calls into Python.
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "paceline_status_str": (c_char_p, [c_int]),
    "paceline_last_error": (c_char_p, []),
    "paceline_last_error_index": (c_int64, []),
    "paceline_string_free": (None, [c_void_p]),
    "paceline_version": (c_char_p, []),
    "paceline_abi_version": (c_int, []),
    "paceline_build_info": (c_char_p, []),
    "paceline_devices": (STATUS, [_out_text]),
    "paceline_methods": (STATUS, [_out_text]),
    "paceline_config_new": (STATUS, [_out_handle, _text]),
    "paceline_config_load": (STATUS, [_out_handle, _text]),
    "paceline_config_method": (STATUS, [POINTER(c_char_p), _handle]),
    "paceline_config_set": (STATUS, [_handle, _text, _text]),
    "paceline_config_get": (STATUS, [_out_text, _handle, _text]),
    "paceline_config_preset": (STATUS, [_handle, _text, _text]),
    "paceline_config_presets": (STATUS, [_out_text, _handle]),
    "paceline_config_describe": (STATUS, [POINTER(Option), _handle, c_size_t]),
    "paceline_trainer_new": (STATUS, [_out_handle, _handle]),
    "paceline_trainer_new_push": (STATUS, [_out_handle, _handle, POINTER(Spec), POINTER(Spec)]),
    "paceline_trainer_config": (STATUS, [_out_handle, _handle]),
    "paceline_trainer_spec": (STATUS, [POINTER(Spec), POINTER(Spec), _handle]),
    "paceline_trainer_describe": (STATUS, [_out_text, _handle]),
    "paceline_trainer_begin": (STATUS, [_handle, c_int64, c_uint32]),
    "paceline_trainer_run": (STATUS, [POINTER(Stats), _handle, c_int64, c_int64]),
    "paceline_trainer_run_rollouts": (STATUS, [POINTER(Stats), _handle, c_int64, c_int64, c_int64]),
    "paceline_trainer_stop": (STATUS, [_handle]),
    "paceline_trainer_stats": (STATUS, [POINTER(Stats), _handle]),
    "paceline_trainer_metric": (STATUS, [POINTER(Metric), _handle, c_size_t]),
    "paceline_trainer_metric_index": (STATUS, [POINTER(c_size_t), _handle, _text]),
    "paceline_trainer_notice": (STATUS, [_out_text, _handle]),
    "paceline_trainer_proposal": (STATUS, [_out_text, _handle]),
    "paceline_trainer_settle": (STATUS, [_handle, c_int64]),
    "paceline_trainer_parameter": (STATUS, [POINTER(Parameter), _handle, _text, c_size_t]),
    "paceline_trainer_get_parameters": (STATUS, [POINTER(c_float), c_size_t, POINTER(c_int64), _handle, _text]),
    "paceline_trainer_set_parameters": (STATUS, [_handle, _text, POINTER(c_float), c_size_t]),
    "paceline_trainer_hash": (STATUS, [_out_text, _handle, _text]),
    "paceline_trainer_save": (STATUS, [_handle, _text, c_uint32]),
    "paceline_trainer_load": (STATUS, [_handle, _text]),
    "paceline_trainer_save_order": (STATUS, [_handle, _text]),
    "paceline_trainer_save_trace": (STATUS, [_handle, _text]),
    "paceline_trainer_load_experience": (STATUS, [_handle, _text]),
    "paceline_trainer_read_transitions": (STATUS, [POINTER(Transitions), _handle, POINTER(c_int64)]),
    "paceline_trainer_add_transitions": (STATUS, [_handle, POINTER(Transitions)]),
    "paceline_trainer_rows": (STATUS, [POINTER(Rows), c_void_p, _handle]),
    "paceline_trainer_episodes": (STATUS, [POINTER(c_double), POINTER(c_int64), POINTER(c_size_t), _handle]),
    "paceline_trainer_act": (STATUS, [_handle, POINTER(Rows), c_void_p, c_int64]),
    "paceline_trainer_observe": (STATUS, [_handle, POINTER(Rows), c_int64]),
    "paceline_policy_load": (STATUS, [_out_handle, _text]),
    "paceline_policy_from_trainer": (STATUS, [_out_handle, _handle]),
    "paceline_policy_from_bytes": (STATUS, [_out_handle, c_void_p, c_size_t]),
    "paceline_policy_spec": (STATUS, [POINTER(Spec), POINTER(Spec), _handle]),
    "paceline_policy_describe": (STATUS, [_out_text, _handle]),
    "paceline_policy_act": (STATUS, [_handle, c_size_t, c_void_p, POINTER(ActOptions), c_void_p, POINTER(POINTER(c_float))]),
    "paceline_policy_evaluate": (STATUS, [POINTER(Evaluation), _handle, _text, _text, POINTER(EvalOptions)]),
    "paceline_policy_stop": (STATUS, [_handle]),
    "paceline_policy_save": (STATUS, [_handle, _text]),
    "paceline_policy_to_bytes": (STATUS, [c_void_p, POINTER(c_size_t), _handle]),
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
    "paceline_vec_send_new_game": (STATUS, [_handle, POINTER(c_int32), c_size_t]),
    "paceline_vec_recv": (STATUS, [_handle, c_int64]),
    "paceline_vec_under_way": (STATUS, [POINTER(c_size_t), _handle]),
    "paceline_vec_drain": (STATUS, [_handle]),
    "paceline_vec_save": (STATUS, [c_void_p, POINTER(c_size_t), _handle, c_uint32]),
    "paceline_vec_restore": (STATUS, [_handle, c_uint32, c_void_p, c_size_t]),
    "paceline_vec_render": (STATUS, [POINTER(c_uint8), POINTER(c_size_t), POINTER(c_uint32), POINTER(c_uint32), _handle, c_uint32]),
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
    "paceline_trainer_gradient": (STATUS, [POINTER(c_float), c_size_t, POINTER(Gradient), _handle, c_int64]),
    "paceline_trainer_adopt": (STATUS, [_handle, POINTER(c_float), c_size_t, c_int64, c_int64]),
    "paceline_trainer_add_steps": (STATUS, [_handle, c_uint32, POINTER(Steps)]),
    "paceline_trainer_draw": (STATUS, [POINTER(Minibatch), _handle, c_double]),
    "paceline_trainer_set_errors": (STATUS, [_handle, POINTER(c_int64), POINTER(c_float), c_size_t]),
    "paceline_trainer_gradient_of": (STATUS, [POINTER(c_float), c_size_t, POINTER(Gradient), _handle, POINTER(Minibatch)]),
    "paceline_store_new": (STATUS, [_out_handle, POINTER(c_float), c_size_t, POINTER(StoreOptions)]),
    "paceline_store_push": (STATUS, [POINTER(Answer), _handle, POINTER(c_float), c_size_t, POINTER(Push)]),
    "paceline_store_pull": (STATUS, [POINTER(c_float), c_size_t, POINTER(c_int64), _handle]),
    "paceline_store_describe": (STATUS, [_out_text, _handle]),
    "paceline_store_save": (STATUS, [_handle, _text]),
    "paceline_store_load": (STATUS, [_out_handle, _text]),
    "paceline_store_to_bytes": (STATUS, [c_void_p, POINTER(c_size_t), _handle]),
    "paceline_store_from_bytes": (STATUS, [_out_handle, c_void_p, c_size_t]),
    **{f"paceline_{kind}_free": (None, [_handle]) for kind in ("config", "policy", "console", "store")},
    **{f"paceline_{kind}_free": (STATUS, [_handle]) for kind in ("trainer", "vec")},
}
