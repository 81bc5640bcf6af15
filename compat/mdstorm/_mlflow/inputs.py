"""Datasets as MLflow logs them: where the data are, their columns, and their number of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from mdstorm._datasets import StoredPlace
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import require
from mdstorm_backend.display import shown_url
from mdstorm_backend.format import Column

mlflow: Any = require("mlflow")
_Dataset, _DatasetSource = mlflow.data.dataset.Dataset, mlflow.data.dataset_source.DatasetSource

#: Maximum lengths of a dataset's name and source in MLflow.
_LONGEST_NAME, _LONGEST_SOURCE = 500, 65_535
#: MLflow's types of scalars, and the types of Arrow for which they stand.
_SCALARS: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "boolean": (pa.types.is_boolean,),
    "integer": (
        pa.types.is_int8,
        pa.types.is_int16,
        pa.types.is_int32,
        pa.types.is_uint8,
        pa.types.is_uint16,
    ),
    "long": (pa.types.is_integer,),
    "float": (pa.types.is_float16, pa.types.is_float32),
    "double": (pa.types.is_floating, pa.types.is_decimal),
    "datetime": (pa.types.is_date, pa.types.is_timestamp),
    "string": (pa.types.is_string, pa.types.is_large_string),
}


class StoredData(_DatasetSource):  # type: ignore[misc, valid-type]  # from an optional library
    """Where logged data are, as MLflow's ``DatasetSource``.

    Attributes
    ----------
    uri : str or list of str
        URL of the data, or the name of a table as ``uc://catalog.schema.table``; several for
        streams that are read together. Credentials and values of its query are hidden.
    version : int or None
        Version of a Delta table, or snapshot of an Iceberg table.
    files : list of str, int or None
        Names of the files below the URL that are read; None for all. If they are too many for
        MLflow, their number: then `load_trace` opens them.
    """

    def __init__(
        self, uri: str | list[str], version: int | None = None, files: list[str] | int | None = None
    ) -> None:
        self.uri = shown_url(uri) if isinstance(uri, str) else [shown_url(one) for one in uri]
        self.version, self.files = version, files
        if not isinstance(files, int) and len(self.to_json()) > _LONGEST_SOURCE:
            self.files = len(files or ())

    @staticmethod
    def _get_source_type() -> str:
        return "mdstorm"

    def load(self, **storage_options: Any) -> Any:
        """Open the data, without reading rows.

        Parameters
        ----------
        **storage_options
            Options of the file system.

        Raises
        ------
        InvalidArgumentError
            If the files were too many to be listed here.
        """
        if isinstance(self.files, int):
            raise InvalidArgumentError(
                f"the run read {self.files} files below {self.uri}, too many for MLflow's inputs: "
                "open them with mdstorm.mlflow.load_trace(run_id).dataset, if the run has a state"
            )
        return StoredPlace(self.uri, self.version, self.files).open(storage_options or None)

    @staticmethod
    def _can_resolve(raw_source: Any) -> bool:
        return False

    @classmethod
    def _resolve(cls, raw_source: Any) -> StoredData:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as JSON values."""
        found = {"uri": self.uri, "version": self.version}
        return found if self.files is None else {**found, "files": self.files}

    @classmethod
    def from_dict(cls, source_dict: Mapping[str, Any]) -> StoredData:
        """Return the source with these attributes."""
        return cls(**source_dict)


mlflow.data.dataset_source_registry.register_dataset_source(StoredData)


class LoggedDataset(_Dataset):  # type: ignore[misc, valid-type]
    """What a run reads, as MLflow's ``Dataset``."""

    def __init__(self, data: Any) -> None:
        place = StoredPlace.of(data)
        self._profile: dict[str, Any] = {"num_rows": len(data)}
        if data.chosen is not None:
            self._profile |= {"rows": data.chosen, "where": data.where}
        self._schema = {"mlflow_colspec": [_colspec(column) for column in data.schema]}
        name = place.shown.removeprefix("uc://")[-_LONGEST_NAME:]
        super().__init__(StoredData(*place), name, data.content_identity())

    @property
    def profile(self) -> dict[str, Any]:
        """The number of rows and, if rows were chosen, their hash and the conditions."""
        return self._profile

    @property
    def schema(self) -> dict[str, Any]:
        """The columns in MLflow's own form."""
        return self._schema

    def to_dict(self) -> dict[str, str]:
        """Return the values that MLflow keeps."""
        described = {"schema": json.dumps(self.schema), "profile": json.dumps(self.profile)}
        return {**super().to_dict(), **described}

    def log(self, client: Any, run_id: str, context: str) -> None:
        """Log the dataset as an input of a run.

        MLflow keeps one input of each name and digest. If the run has these data in another
        context, the name gets the context.
        """
        for one in client.get_run(run_id).inputs.dataset_inputs:
            tags = {tag.key: tag.value for tag in one.tags}
            is_same = (one.dataset.name, one.dataset.digest) == (self.name, self.digest)
            if is_same and tags.get(_CONTEXT) != context:
                suffix = f" ({context})"[:_LONGEST_NAME]
                self._name = self.name[: _LONGEST_NAME - len(suffix)] + suffix
                break
        entities = mlflow.entities
        dataset, tag = entities.Dataset(**self.to_dict()), entities.InputTag(_CONTEXT, context)
        client.log_inputs(run_id, datasets=[entities.DatasetInput(dataset, [tag])])


#: The key of the tag that MLflow shows as an input's context.
_CONTEXT = "mlflow.data.context"


def _colspec(column: Column) -> dict[str, Any]:
    return {
        **_type_in_mlflow(column.arrow_type),
        "name": column.name,
        "required": not column.may_have_nulls,
    }


def _type_in_mlflow(arrow: pa.DataType) -> dict[str, Any]:
    """Return the type in MLflow's form that is nearest to a column's."""
    types = pa.types
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        return {"type": "array", "items": _type_in_mlflow(arrow.value_type)}
    if types.is_struct(arrow) and arrow.num_fields:
        fields = {f.name: {**_type_in_mlflow(f.type), "required": not f.nullable} for f in arrow}
        return {"type": "object", "properties": fields}
    if types.is_map(arrow):
        return {"type": "map", "values": _type_in_mlflow(arrow.item_type)}
    of_scalar = (name for name, kinds in _SCALARS.items() if any(is_of(arrow) for is_of in kinds))
    return {"type": next(of_scalar, "binary")}
