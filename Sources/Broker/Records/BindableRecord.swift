// Records of what may belong to a key: a bound one has a format of its own, which a release that knows no keys does not read.
// There it is a row of a newer format, never served and never ended; what is not bound stays as it was.

private enum BindableFormat {
    static let unbound: UInt8 = 1
    static let bound: UInt8 = 2
}

extension RecordWriter {

    /// Creates a record of what belongs to the key of a thumbprint, or to none.
    init(boundTo thumbprint: Digest?) {
        self.init(format: thumbprint == nil ? BindableFormat.unbound : BindableFormat.bound)
        if let thumbprint { string(Base64URL.encode(thumbprint.bytes)) }
    }
}

extension RecordReader {
    /// Returns the reader of a record, behind the thumbprint of the key that it belongs to, if it belongs to one.
    static func bindable(_ bytes: [UInt8]) throws(RecordFailure) -> (reader: RecordReader, thumbprint: Digest?) {
        guard bytes.first == BindableFormat.bound else {
            return (try RecordReader(bytes, format: BindableFormat.unbound), nil)
        }
        var reader = try RecordReader(bytes, format: BindableFormat.bound)
        guard let thumbprint = Base64URL.decode(try reader.string()).flatMap(Digest.init) else { throw .malformed }
        return (reader, thumbprint)
    }
}
