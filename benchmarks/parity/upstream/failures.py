"""Petastorm and MosaicML Streaming tests that fail on mdstorm, and why.

Maps patterns of test names to reasons. If a reason gives a page, the page describes the difference.
"""

_PRIVATE = "calls or patches private functions"
_ARROW = "uses classes or attributes that PyArrow has removed"
_BUFFERS = "docs/differences.md, buffers of batches"
_TOOLS = "docs/differences.md, tools and benchmarks"
_WORKERS = "docs/differences.md, workers and their queues"
_MESSAGE = "expects the text of a message; the class is the same"
_SHARDS = "docs/mosaicml.md: MDS only, no JSON, CSV or XSV shards"
_SHARED = "docs/mosaicml.md: no shared memory, and no settings for it"
_CLIENTS = "calls or patches MosaicML Streaming's object store clients"
_REGISTRY = "docs/mosaicml.md: no registries"

FAILURES: dict[str, dict[str, str]] = {
    "petastorm": {
        ".upstream.test_reading_legacy_datasets": "its datasets are not in the package",
        "test_arrow_table_serializer.*": _WORKERS,
        "test_benchmark.*": _TOOLS,
        "test_copy_dataset.*_cli": _TOOLS,
        "test_copy_dataset.test_bad_regex": _TOOLS,
        "test_dataset_metadata.test_serialize_filesystem_factory": _ARROW,
        "test_disk_cache.test_cleanup_handles_*": _PRIVATE,
        "test_end_to_end.test_pass_in_pyarrow_filesystem_*": _ARROW,
        "test_end_to_end.test_predicate_with_invalid_fields*": (
            "make_reader raises the ValueError that next(reader) raises in Petastorm"
        ),
        "test_fs_utils.*": "docs/differences.md, name nodes of HDFS",
        "test_generate_metadata.test_regenerate_*": _ARROW,
        "test_parquet_reader.test_asymetric_parquet_pieces*": _ARROW,
        "test_parquet_reader.test_convert_arrow_table_*": _WORKERS,
        "test_parquet_reader.test_results_queue_size_*": _WORKERS,
        "test_parquet_reader.test_shuffle_cache_*": _WORKERS,
        "test_parquet_reader.test_transform_spec_support_return_tensor*": _WORKERS,
        "test_pickle_serializer.*": _WORKERS,
        "test_pytorch_dataloader.test_call_iter_on_dataloader_multiple_times*": (
            "docs/differences.md: a second iteration may begin during the first"
        ),
        "test_pytorch_dataloader.test_torch_tensorable_types*uint*": (
            "PyTorch now has these types, and mdstorm converts as Petastorm does"
        ),
        "test_reader.test_cleanup_cache_*": "expects what Petastorm prints",
        "test_reader_mock.ReaderMockTest.test_simple_read_tf": _PRIVATE,
        "test_shuffling_buffer.*": _BUFFERS,
        "test_spark_dataset_converter.test_check_*": _PRIVATE,
        "test_spark_dataset_converter.test_compression": "converters write MDS, not Parquet",
        "test_spark_dataset_converter.test_df_delete_caching_meta": _PRIVATE,
        "test_spark_dataset_converter.test_dtype": _MESSAGE,
        "test_spark_dataset_converter.test_get_spark_session_safe_check": _PRIVATE,
        "test_spark_dataset_converter.test_horovod_rank_compatibility": _PRIVATE,
        "test_spark_dataset_converter.test_make_sub_dir_url": _PRIVATE,
        "test_spark_dataset_converter.test_normalize_databricks_dbfs_url": _PRIVATE,
        "test_spark_dataset_converter.test_set_delete_handler": _PRIVATE,
        "test_spark_dataset_converter.test_tf_dataset_petastorm_args": _PRIVATE,
        "test_spark_dataset_converter.test_torch_dataloader_advanced_params": _PRIVATE,
        "test_spark_dataset_converter.test_torch_transform_spec": "needs torchvision",
        "test_spark_dataset_converter.test_wait_file_available": _PRIVATE,
        "test_spark_session_cli.*": _TOOLS,
        "test_tf_dataset.test_with_dataset_repeat*": (
            "expects a warning about repeat(), which works on mdstorm's datasets"
        ),
        "test_tf_utils.test_decimal_conversion": _PRIVATE,
        "test_tf_utils.test_ngram_generator": _PRIVATE,
        "test_tf_utils.test_sanitize_field_tf_types": _PRIVATE,
        "test_tf_utils.test_schema_to_dtype_list": _PRIVATE,
        "test_tf_utils.test_uint16_promotion_to_int32": _PRIVATE,
        "test_tf_utils.test_unknown_type": _PRIVATE,
        "test_unischema.test_arrow_schema_*": _ARROW,
        "test_unischema.test_fullmatch": _PRIVATE,
        "test_unischema.test_match_unischema_fields_legacy_warning": "an error in current pytest",
        "test_unischema.test_new_gt_255_compatible_namedtuple": _PRIVATE,
    },
    "mosaic": {
        ".tests.test_mixing": "marks a fixture, which is an error in current pytest",
        "test_array.test_*_1d": _SHARED,
        "test_barrier.*": _SHARED,
        "test_compression.test_*_invalid_compression_algo": _MESSAGE,
        "test_compression.test_invalid_compression_extension*": _MESSAGE,
        "test_distributed.TestWorldSize.*": "needs a helper that is not distributed",
        "test_download.*": _CLIENTS,
        "test_encodings.TestJSONEncodings.*": _SHARDS,
        "test_encodings.TestMDSEncodings.test_error_*": _MESSAGE,
        "test_encodings.TestMDSEncodings.test_json_invalid_data": _PRIVATE,
        "test_encodings.TestMDSEncodings.test_png_encode_decode*": (
            "Pillow no longer writes images of mode I as PNG"
        ),
        "test_encodings.TestXSVEncodings.*": _SHARDS,
        "test_eviction.test_cache_limit_lower_than_*": _MESSAGE,
        "test_eviction.test_eviction_*": "docs/mosaicml.md, the cache: lists the directory `local`",
        "test_partition.test_partition_invalid_drop_first*": (
            "accepts the padded end of an epoch with a larger world size"
        ),
        "test_partition.test_partition_relaxed_resumption*": _MESSAGE,
        "test_partition.test_replication_*": _MESSAGE,
        "test_reader.test_accidental_shard_delete": (
            "docs/mosaicml.md, the cache: a removed shard is downloaded when it is next opened"
        ),
        "test_reader.test_empty_shards_index_json_exception": _MESSAGE,
        "test_reader.test_invalid_index_json_exception": _MESSAGE,
        "test_reader.test_predownload_batch_size_warning": _MESSAGE,
        "test_reader.test_reader_download_fail*": _MESSAGE,
        "test_registry.*": _REGISTRY,
        "test_shared.*": _SHARED,
        "test_stream.test_construct_stream_from_registry*": _REGISTRY,
        "test_stream.test_existing_local_raises_exception": (
            "a Stream without `local` uses its own cache, even if the directory exists"
        ),
        "test_stream.test_local_is_none_*": "expects the name of a temporary directory",
        "test_stream.test_missing_index_json_local": _MESSAGE,
        "test_streaming.test_dataloader_device_per_stream_batching*": _PRIVATE,
        "test_streaming.test_no_batch_size_exception": (
            "docs/mosaicml.md: a StreamingDataLoader with a batch size is enough"
        ),
        "test_streaming.test_same_local_diff_remote": (
            "docs/mosaicml.md, fixed defects: two datasets on one directory"
        ),
        "test_streaming.test_sampling_method_invalid_Exception*": _MESSAGE,
        "test_streaming.test_stratified_batching_Exception*": _MESSAGE,
        "test_streaming.test_tiny_dataset_exception": "datasets smaller than a node are read",
        "test_streaming_remote.*": "reads from Amazon S3",
        "test_upload.*": _CLIENTS,
        "test_util.test_clean_stale_shared_memory": _SHARED,
        "test_util.test_format_remote_index_files*": _PRIVATE,
        "test_util.test_merge_index_from_list_local*": _MESSAGE,
        "test_util.test_merge_index_from_root_local*": (
            "docs/mosaicml.md, fixed defects: merge_index removes nothing"
        ),
        "test_writer.TestJSONWriter.*": _SHARDS,
        "test_writer.TestMDSWriter.test_max_size_limit": _MESSAGE,
        "test_writer.TestXSVWriter.*": _SHARDS,
    },
}
