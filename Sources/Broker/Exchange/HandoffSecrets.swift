/// What a hosted callback brought, kept sealed for the app to fetch (flow C).
///
/// A handoff is used once because its exchange is.
struct HandoffSecrets: Sendable {
    /// The login's state digest.
    var login: Digest
    var target: String
    /// Only those that the exchange reads.
    var parameters: [(name: String, value: String)]

    private static let format: UInt8 = 2

    var record: [UInt8] {
        var writer = RecordWriter(format: Self.format)
        writer.string(Base64URL.encode(login.bytes))
        writer.string(target)
        writer.pairs(parameters)
        return writer.bytes
    }

    init(login: Digest, target: String, parameters: [(name: String, value: String)]) {
        self.login = login
        self.target = target
        self.parameters = parameters
    }

    init(record bytes: [UInt8]) throws(RecordFailure) {
        var reader = try RecordReader(bytes, format: Self.format)
        guard let login = Base64URL.decode(try reader.string()).flatMap(Digest.init) else {
            throw .malformed
        }
        self.login = login
        target = try reader.string()
        parameters = try reader.pairs()
    }
}
