SECTION_HEADER: int
INTERFACE: int
ENHANCED_PACKET: int
BYTE_ORDER_MAGIC: int
ETHERNET: int
COMMENT: int
INTERFACE_NAME: int
APPLICATION: int
RESOLUTION: int
NANOSECONDS: bytes
UNKNOWN_SIZE: int
MOST_COMMENT: int

def file_header(application: str) -> bytes: ...
def packet(at: int, data: bytes, comment: str = "") -> bytes: ...
