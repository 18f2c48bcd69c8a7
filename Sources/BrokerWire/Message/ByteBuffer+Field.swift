import NIOCore

extension ByteBuffer {
    /// Writes a field line (RFC 9112 section 5); name and value are checked where they are made.
    mutating func writeField(_ name: String, _ value: String) {
        writeString(name)
        writeStaticString(": ")
        writeString(value)
        writeStaticString("\r\n")
    }
}
