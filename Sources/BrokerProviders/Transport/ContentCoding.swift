import CZlib

/// Decodes the content coding of a provider's answer (RFC 9110 section 8.4.1): gzip, x-gzip and deflate.
///
/// The limit applies to the total output of all gzip members, so a small answer cannot become a large body.
enum ContentCoding {
    /// The reason why a body is unusable.
    enum Failure: Error, Equatable {
        case tooLarge, undecodable
    }

    /// The largest number of gzip members of one answer (RFC 1952 section 2.2).
    static let maximumMembers = 16

    /// Returns the decoded body; an empty body remains empty, whatever `fields` are.
    ///
    /// `fields` are the values of all `Content-Encoding` fields.
    static func decode(_ body: [UInt8], _ fields: [String], maximumBytes: Int) throws(Failure) -> [UInt8] {
        let codings = fields.flatMap { $0.split(separator: ",") }.map { part in
            String(part.filter { $0 != " " && $0 != "\t" }).lowercased()
        }.filter { !$0.isEmpty && $0 != "identity" }
        guard !body.isEmpty, let coding = codings.first else { return body }
        guard codings.count == 1 else { throw .undecodable }
        switch coding {
        case "gzip", "x-gzip": return try inflate(body, .gzip, maximumBytes: maximumBytes)
        case "deflate":
            return try inflate(body, isZlib(body) ? .zlib : .raw, maximumBytes: maximumBytes)
        default: throw .undecodable
        }
    }

    /// Returns whether a body begins like zlib's format (RFC 1950 section 2.2); some servers send deflate data without zlib's
    /// header.
    private static func isZlib(_ body: [UInt8]) -> Bool {
        guard body.count >= 2 else { return false }
        let (method, flags) = (body[0], body[1])
        return method & 15 == 8 && method >> 4 <= 7 && (Int(method) << 8 | Int(flags)) % 31 == 0
    }

    /// The window bits that select the format in zlib.
    private enum Format: Int32 {
        case gzip = 31
        case zlib = 15
        case raw = -15
    }

    private static func inflate(_ body: [UInt8], _ format: Format, maximumBytes: Int) throws(Failure) -> [UInt8] {
        var stream = z_stream()
        guard coatcheck_inflate_init(&stream, format.rawValue) == Z_OK else { throw .undecodable }
        defer { inflateEnd(&stream) }
        var decoded: [UInt8] = []
        var input = body
        let failure = input.withUnsafeMutableBufferPointer { input in
            stream.next_in = input.baseAddress
            stream.avail_in = UInt32(clamping: input.count)
            return readMembers(of: &stream, format, into: &decoded, maximumBytes)
        }
        if let failure { throw failure }
        return decoded
    }

    /// Decodes all members; returns nil if the whole body was decoded.
    private static func readMembers(
        of stream: inout z_stream, _ format: Format, into decoded: inout [UInt8], _ maximumBytes: Int
    ) -> Failure? {
        var members = 1
        var room = [UInt8](repeating: 0, count: 16_384)
        while true {
            let result = room.withUnsafeMutableBufferPointer { room in
                stream.next_out = room.baseAddress
                stream.avail_out = UInt32(clamping: room.count)
                return CZlib.inflate(&stream, Z_NO_FLUSH)
            }
            guard result == Z_OK || result == Z_STREAM_END else { return .undecodable }
            let made = room.count - Int(stream.avail_out)
            guard decoded.count + made <= maximumBytes else { return .tooLarge }
            decoded += room[..<made]
            if result == Z_STREAM_END {
                guard stream.avail_in > 0 else { return nil }
                members += 1
                // Only gzip data may have several members, so bytes after the end of another format are an error.
                guard format == .gzip, members <= maximumMembers, inflateReset(&stream) == Z_OK else {
                    return .undecodable
                }
            } else if stream.avail_in == 0, made < room.count {
                // The data is incomplete.
                return .undecodable
            }
        }
    }
}
