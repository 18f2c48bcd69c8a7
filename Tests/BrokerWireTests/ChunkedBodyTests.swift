import NIOCore
import Testing

@testable import BrokerWire

/// The broker's own reader of chunked bodies (RFC 9112 section 7.1).
@Suite("Chunked bodies (SEC-101, SEC-105)", .timeLimit(.minutes(1)))
struct ChunkedBodyTests {
    /// The result of reading all parts of a text.
    private struct Reading: Equatable {
        var body = ""
        var pieces = 0
        var end = ChunkedBody.Step.needsMore
        /// The unread input after the line of the last chunk.
        ///
        /// After a fault, the input from the faulty byte on.
        var rest = ""
    }

    /// Reads a chunked text that arrives in the given parts.
    private static func read(_ parts: [String]) -> Reading {
        var reader = ChunkedBody()
        var reading = Reading()
        var input = ByteBuffer()
        for part in parts {
            input.writeString(part)
            steps: while input.readableBytes > 0 {
                let step = reader.next(&input)
                switch step {
                case .piece(let piece):
                    reading.body += String(buffer: piece)
                    reading.pieces += 1
                case .needsMore: break steps
                case .last, .malformed:
                    reading.end = step
                    break steps
                }
            }
        }
        reading.rest = String(buffer: input)
        return reading
    }

    @Test(
        "A chunked body could be read differently by two parsers → malformed, even if it arrives in two parts (SEC-101)",
        arguments: [
            "zz\r\n", "\r\n", ";a\r\n", "-2\r\n{}", "+2\r\n{}", "0x2\r\n{}", " 2\r\n{}", "2 \r\n{}", "2\n{}", "2\r{}",
            "2\r\r\n",
            "2\r\n{}x\r\n", "2\r\n{}\r\r", "2\r\n{}\n0\r\n", "2;a\n{}\r\n", "2;a\u{0}b\r\n{}", "2;a\u{7F}b\r\n{}",
            "ffffffffffffffff\r\n", "8000000000000000\r\n", "00000000000000002\r\n{}",
            "2;" + String(repeating: "x", count: 1024),
            "2\r\n{}\r\n\r\n", "2\r\n{}0\r\n",
        ])
    func refusals(text: String) {
        for cut in 0...text.utf8.count {
            let parts = [String(text.utf8.prefix(cut)) ?? "", String(text.utf8.dropFirst(cut)) ?? ""]
            #expect(Self.read(parts).end == .malformed, "cut at \(cut)")
        }
    }

    @Test("A chunked body arrives in two parts, split at any byte → the same bytes are read, up to the last chunk")
    func cuts() {
        let long = String(repeating: "0123456789", count: 300)
        let text =
            "1\r\na\r\n00A;x=\"y\";z\r\nbcdefghijk\r\nbb8;\r\n\(long)\r\n2\r\n\r\n\r\n0;last\r\nTrailer: x\r\n\r\nGET /"
        let body = "abcdefghijk" + long + "\r\n"
        let rest = "Trailer: x\r\n\r\nGET /"
        let bytes = Array(text.utf8)
        for cut in 0...bytes.count {
            let parts = [
                String(decoding: bytes[..<cut], as: UTF8.self), String(decoding: bytes[cut...], as: UTF8.self),
            ]
            let reading = Self.read(parts)
            #expect(reading.body == body, "cut at \(cut)")
            #expect(reading.end == .last)
            // The reader stops after the last chunk, so `rest` has only the following bytes of the same part.
            #expect(rest.hasSuffix(reading.rest) && reading.rest.hasSuffix("GET /"))
        }
        let single = Self.read(bytes.map { String(decoding: [$0], as: UTF8.self) })
        #expect(single.body == body)
        #expect(single.end == .last)
    }

    @Test(
        "A chunked body has 11,000 one-byte chunks → one piece for each read, in at most twice the body's memory (SEC-105)"
    )
    func small() {
        var reader = ChunkedBody()
        var input = ByteBuffer(string: String(repeating: "1\r\nx\r\n", count: 11_000))
        var pieces = 0
        var held = 0
        var body = 0
        while var read = input.readSlice(length: min(input.readableBytes, 16_384)), read.readableBytes > 0 {
            while case .piece(let piece) = reader.next(&read) {
                pieces += 1
                held += piece.storageCapacity
                body += piece.readableBytes
            }
        }
        #expect(body == 11_000)
        #expect(pieces == 5)
        #expect(held <= 2 * body, "\(held) bytes are held")
    }

    @Test("A chunked body has a chunk of 10,000 bytes → handed on as one piece, without a copy in memory")
    func long() throws {
        var reader = ChunkedBody()
        var input = ByteBuffer(string: "4000\r\n" + String(repeating: "x", count: 10_000))
        let memory = input.storageCapacity
        guard case .piece(let piece) = reader.next(&input) else { throw CancellationError() }
        #expect(piece.readableBytes == 10_000)
        #expect(piece.storageCapacity == memory)
    }

    @Test(
        "A request's head arrives in two parts, split at any byte → the empty line at its end is found at the right place"
    )
    func emptyLines() {
        for (text, length) in [
            ("\r\n\r\n", 4), ("GET / HTTP/1.1\r\nHost: a\r\n\r\nrest", 27), ("a\r\n\r\r\n\r\n", 8), ("a\r\r\n\r\nb", 6),
            ("\r\n\n\r\n\r\n\r\n", 7),
            ("a\n\n", nil), ("a\r\n\r", nil), ("\r\n\n\r\n", nil), ("abc\r\nd\r\n", nil), ("\r\r\r\r\n\n", nil),
        ] as [(String, Int?)] {
            for pad in 0..<35 {
                let bytes = Array(repeating: UInt8(ascii: "x"), count: pad) + Array(text.utf8)
                for cut in pad / 2...bytes.count {
                    var line = EmptyLine()
                    let first = line.end(in: ByteBuffer(bytes: bytes[..<cut]), upTo: cut)
                    let found =
                        first
                        ?? line.end(in: ByteBuffer(bytes: bytes[cut...]), upTo: bytes.count - cut).map { $0 + cut }
                    #expect(found == length.map { $0 + pad }, "\(text.debugDescription) behind \(pad), cut at \(cut)")
                }
            }
        }
        var behind = EmptyLine(behindLine: true)
        #expect(behind.end(in: ByteBuffer(string: "\r\nGET"), upTo: 5) == 2)
    }
}
