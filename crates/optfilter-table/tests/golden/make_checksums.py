"""Makes checksums.parquet, whose pages carry their checksums, for tests/damage.rs: pip install pyarrow, then run in this folder."""

import pyarrow as pa
import pyarrow.parquet as pq

table = pa.table({"y": [k / 8 for k in range(64)]})
pq.write_table(table, "checksums.parquet", compression="NONE", use_dictionary=False, write_page_checksum=True)
