"""Names and arguments that PySpark, torch, TensorFlow and Lightning removed."""

from __future__ import annotations

from mdstorm_migrate.libraries.removed import Member, Removed, all_of, joined

_SPARK = joined(
    all_of(
        "pyspark.sql.column",
        "_to_java_column _to_seq _to_list",
        Removed("PySpark 4.0", "take it from `pyspark.sql.classic.column`"),
    ),
    all_of(
        "pyspark.sql.functions",
        "_to_java_column",
        Removed("PySpark 4.0", "take it from `pyspark.sql.classic.column`"),
    ),
    all_of(
        "pyspark.sql.functions",
        "monotonicallyIncreasingId",
        Removed("PySpark 3.0", "call `monotonically_increasing_id`"),
    ),
    all_of(
        "pyspark.sql.types",
        "to_arrow_type from_arrow_type to_arrow_schema from_arrow_schema",
        Removed("PySpark 3.0", "take it from `pyspark.sql.pandas.types`"),
    ),
    all_of(
        "pyspark.sql.utils",
        "require_minimum_pandas_version require_minimum_pyarrow_version",
        Removed("PySpark 3.0", "take it from `pyspark.sql.pandas.utils`"),
    ),
    all_of(
        "pyspark.ml.feature",
        "OneHotEncoderEstimator",
        Removed("PySpark 3.0", "use `OneHotEncoder`"),
    ),
    all_of(
        "pyspark.ml.image",
        "ImageSchema.readImages",
        Removed("PySpark 3.0", "call `spark.read.format('image').load(path)`"),
    ),
    all_of("pyspark.streaming", "kafka flume", Removed("PySpark 3.0", "use Structured Streaming")),
)

_COLLATE = "torch.utils.data._utils.collate"
_TORCH = joined(
    all_of(
        "torch",
        "_six",
        Removed(
            "torch 2.0",
            "write `(str, bytes)` for `string_classes`, `int` for `int_classes`, "
            "`collections.abc` for `container_abcs`, `math.inf` for `inf`",
        ),
    ),
    all_of(
        _COLLATE,
        "string_classes int_classes container_abcs",
        Removed("torch 2.1", "write `(str, bytes)`, `int`, `collections.abc`"),
    ),
    all_of("torch", "rfft irfft ifft", Removed("torch 1.8", "use the functions of `torch.fft`")),
    all_of("torch", "gels", Removed("torch 2.0", "call `torch.linalg.lstsq`")),
    all_of(
        "torch",
        "btrifact btrisolve potrf potrs pstrf trtrs",
        Removed("torch 2.0", "use the functions of `torch.linalg`"),
    ),
    all_of(
        "torch",
        "set_deterministic is_deterministic",
        Removed("torch 2.0", "call `torch.use_deterministic_algorithms`"),
    ),
    all_of("torch.utils", "ffi", Removed("torch 2.0", "use `torch.utils.cpp_extension`")),
)

_V1 = Removed(
    "TensorFlow 2.0",
    "use `tf.compat.v1`, for which TensorFlow's command `tf_upgrade_v2` rewrites files",
)
_TENSORFLOW = joined(
    all_of(
        "tensorflow",
        "Session InteractiveSession placeholder placeholder_with_default ConfigProto GPUOptions "
        "global_variables_initializer local_variables_initializer tables_initializer "
        "initialize_all_variables get_variable variable_scope reset_default_graph "
        "get_default_graph set_random_seed app flags logging gfile layers global_variables "
        "trainable_variables local_variables get_collection add_to_collection GraphKeys assign "
        "assign_add assign_sub enable_eager_execution to_float to_int32 to_int64 to_double div "
        "log log1p ceil is_nan is_inf is_finite random_uniform random_normal truncated_normal "
        "random_crop random_shuffle multinomial read_file write_file decode_raw decode_csv "
        "parse_example parse_single_example FixedLenFeature VarLenFeature TFRecordReader "
        "python_io py_func Print mod arg_max arg_min lin_space sparse_to_dense "
        "sparse_tensor_to_dense string_to_number Summary GraphDef RunOptions RunMetadata "
        "OptimizerOptions AUTO_REUSE Dimension truncated_normal_initializer "
        "variance_scaling_initializer glorot_uniform_initializer verify_tensor_finite "
        "train.AdamOptimizer train.GradientDescentOptimizer train.MomentumOptimizer "
        "train.RMSPropOptimizer train.AdagradOptimizer train.Saver train.Supervisor "
        "train.MonitoredTrainingSession train.get_or_create_global_step train.get_global_step "
        "train.create_global_step train.global_step train.exponential_decay train.batch "
        "train.shuffle_batch train.start_queue_runners train.SessionRunHook train.StopAtStepHook "
        "train.LoggingTensorHook train.write_graph train.import_meta_graph "
        "train.string_input_producer train.SyncReplicasOptimizer summary.FileWriter "
        "summary.merge_all summary.merge image.resize_images nn.rnn_cell nn.static_rnn "
        "nn.dynamic_rnn nn.softmax_cross_entropy_with_logits_v2 saved_model.simple_save "
        "saved_model.builder saved_model.tag_constants saved_model.signature_constants",
        _V1,
    ),
    all_of("tensorflow", "estimator", Removed("TensorFlow 2.16", "use Keras")),
    all_of(
        "tensorflow",
        "contrib",
        Removed("TensorFlow 2.0", "use what took its place: parts are in tf_slim or Keras"),
    ),
)

_PL = "pytorch_lightning"
_IN_2_0 = "Lightning 2.0"
_LIGHTNING = joined(
    all_of(_PL, "metrics", Removed(_IN_2_0, "use the package `torchmetrics`")),
    all_of(_PL, "core.lightning", Removed(_IN_2_0, "import `LightningModule` from the package")),
    all_of(_PL, "callbacks.base", Removed(_IN_2_0, "import from `…callbacks`")),
    all_of(_PL, "loggers.base", Removed(_IN_2_0, "import `Logger` from `…loggers`")),
    all_of(
        _PL,
        "callbacks.GPUStatsMonitor callbacks.XLAStatsMonitor",
        Removed(_IN_2_0, "use `DeviceStatsMonitor`"),
    ),
    all_of(
        _PL,
        "plugins.DDPPlugin plugins.DDPSpawnPlugin plugins.DeepSpeedPlugin plugins.training_type "
        "plugins.DDPShardedPlugin",
        Removed(_IN_2_0, "pass a strategy: `Trainer(strategy='ddp')`, `'deepspeed'`"),
    ),
    all_of(
        _PL,
        "utilities.distributed.rank_zero_only",
        Removed(_IN_2_0, "import it from `…utilities`"),
    ),
    all_of(
        _PL,
        "utilities.cli",
        Removed(_IN_2_0, "import `LightningCLI` from `…cli`"),
    ),
    all_of(
        _PL,
        "Trainer.from_argparse_args Trainer.add_argparse_args",
        Removed(_IN_2_0, "pass the arguments to `Trainer(…)`, or use `LightningCLI`"),
    ),
)

NAMES = joined(_SPARK, _TORCH, _TENSORFLOW, _LIGHTNING)

MEMBERS = {
    name: Member(
        ("tensorflow.data.Dataset",),
        Removed(
            "TensorFlow 2.0",
            f"iterate over the dataset, or call `tf.compat.v1.data.{name}(dataset)`",
        ),
        True,
    )
    for name in ("make_one_shot_iterator", "make_initializable_iterator")
}

_DEVICES = Removed(_IN_2_0, "pass `accelerator='gpu'` (`'tpu'`, `'cpu'`) and `devices=`")
_TUNER = Removed(_IN_2_0, "use `Tuner(trainer)` of `…tuner`")

#: Arguments that are gone, by function.
KEYWORDS: dict[str, dict[str, Removed]] = {
    f"{_PL}.Trainer": {
        "gpus": _DEVICES,
        "tpu_cores": _DEVICES,
        "num_processes": _DEVICES,
        "auto_select_gpus": _DEVICES,
        "distributed_backend": Removed(_IN_2_0, "pass `strategy=`"),
        "progress_bar_refresh_rate": Removed(
            _IN_2_0, "pass `enable_progress_bar=`, or the callback `TQDMProgressBar`"
        ),
        "weights_summary": Removed(_IN_2_0, "pass `enable_model_summary=`"),
        "checkpoint_callback": Removed(_IN_2_0, "pass `enable_checkpointing=`"),
        "early_stop_callback": Removed(_IN_2_0, "put it into `callbacks=`"),
        "resume_from_checkpoint": Removed(_IN_2_0, "pass `ckpt_path=` to `trainer.fit()`"),
        "flush_logs_every_n_steps": Removed(_IN_2_0, "pass it to the logger"),
        "log_gpu_memory": Removed(_IN_2_0, "use the callback `DeviceStatsMonitor`"),
        "auto_lr_find": _TUNER,
        "auto_scale_batch_size": _TUNER,
        "replace_sampler_ddp": Removed(_IN_2_0, "pass `use_distributed_sampler=`"),
        "reload_dataloaders_every_epoch": Removed(
            _IN_2_0, "pass `reload_dataloaders_every_n_epochs=1`"
        ),
        "terminate_on_nan": Removed(_IN_2_0, "pass `detect_anomaly=`"),
        "weights_save_path": Removed(_IN_2_0, "pass `dirpath=` to `ModelCheckpoint`"),
        "truncated_bptt_steps": Removed(_IN_2_0, "split the batches in the training step"),
    },
}
#: Methods of a subclass that are no longer called, by class.
HOOKS: dict[str, dict[str, Removed]] = {
    f"{_PL}.LightningModule": {
        f"{stage}_epoch_end": Removed(
            _IN_2_0,
            "collect the outputs in the steps, and write `on_train_epoch_end(self)`, "
            "`on_validation_epoch_end(self)` or `on_test_epoch_end(self)`",
        )
        for stage in ("training", "validation", "test")
    },
}
