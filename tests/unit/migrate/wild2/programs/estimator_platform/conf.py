import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict, Optional


@dataclass(frozen=True)
class EstimatorConfig:
    workdir: str
    backend: str = 'petastorm'
    epochs: int = 2
    batch_size: int = 6
    reader_kwargs: Dict[str, Any] = field(default_factory=lambda: {'reader_pool_type': 'thread', 'workers_count': 2})
    compression: Optional[str] = None
    SPARK_KEY: ClassVar[str] = 'petastorm.spark.converter.parentCacheDirUrl'

    @classmethod
    def from_env(cls, **kw) -> 'EstimatorConfig':
        env = {k[len('PETASTORM_EST_'):].lower(): v for k, v in os.environ.items() if k.startswith('PETASTORM_EST_')}
        return cls(**{**env, **kw})

    def describe(self) -> str:
        return '%s/%s' % (self.backend, sorted(f.name for f in dataclasses.fields(self))[0])
