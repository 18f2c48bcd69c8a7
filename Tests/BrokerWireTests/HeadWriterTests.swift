import NIOCore
import Testing

@testable import BrokerWire

@Suite("One rule counts and writes a head's bytes", .timeLimit(.minutes(1)))
struct HeadWriterTests {
    @Test("Bytes that were not counted → not written, by texts or by bytes", arguments: [0, 1, 7, 300])
    func uncounted(more: Int) {
        var passes = 0
        let written = HeadWriter.buffer(more: 0) { head in
            passes += 1
            head.text("abc")
            guard passes > 1 else { return }
            head.text(String(repeating: "x", count: more))
            for _ in 0..<more { head.endLine() }
            head.field("X-A", String(repeating: "y", count: more))
        }
        #expect(passes == 2)
        #expect(String(buffer: written) == "abc")
    }

    @Test("Bytes that were counted and are not written → not part of the head")
    func unwritten() {
        var passes = 0
        let written = HeadWriter.buffer(more: 5) { head in
            passes += 1
            head.text("abc")
            if passes == 1 { head.field("X-A", "b") }
        }
        #expect(String(buffer: written) == "abc" && written.writableBytes >= 5)
    }

    @Test("A head's length → the length of its texts, in any alphabet and storage", arguments: [0, 1, 15, 16, 5000])
    func whole(length: Int) {
        let value = String(String(repeating: "é", count: length).dropFirst(length / 2))
        let written = HeadWriter.buffer(more: 3) { head in
            head.text("HTTP/1.1 200 ")
            head.endLine()
            head.field("X-A", value)
            head.endLine()
        }
        #expect(String(buffer: written) == "HTTP/1.1 200 \r\nX-A: \(value)\r\n\r\n")
    }
}
