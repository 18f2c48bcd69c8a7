import NIOCore
import Testing

@testable import BrokerWire

@Suite("Writing a head into exactly the memory that it needs", .timeLimit(.minutes(2)))
struct HeadWriterTests {
    /// A text that is longer than the buffer of the first pass, so that a second pass follows.
    private static let long = String(repeating: "z", count: 1100)

    @Test(
        "A head's second writing pass has bytes that its first pass did not count → these bytes are left out",
        arguments: [0, 1, 7, 300])
    func uncounted(more: Int) {
        var passes = 0
        let written = HeadWriter.buffer(more: 0) { head in
            passes += 1
            head.text(Self.long)
            guard passes > 1 else { return }
            head.text(String(repeating: "x", count: more))
            for _ in 0..<more { head.endLine() }
            head.field("X-A", String(repeating: "y", count: more))
        }
        #expect(passes == 2)
        #expect(String(buffer: written) == Self.long)
    }

    @Test(
        "A head's second writing pass has fewer bytes than its first pass counted → the result has only the written bytes"
    )
    func unwritten() {
        var passes = 0
        let written = HeadWriter.buffer(more: 5) { head in
            passes += 1
            head.text("abc")
            if passes == 1 { head.field("X-A", Self.long) }
        }
        #expect(passes == 2)
        #expect(String(buffer: written) == "abc" && written.writableBytes >= 5)
    }

    @Test(
        "In a head's second writing pass, a text does not fit → this text and all later texts are left out, even short ones"
    )
    func holes() {
        var passes = 0
        let written = HeadWriter.buffer(more: 0) { head in
            passes += 1
            head.text("abc")
            head.text(passes == 1 ? Self.long : Self.long + "too long")
            head.text("")
            head.endLine()
        }
        #expect(String(buffer: written) == "abc")
    }

    @Test(
        "A head has any length and letters → written whole, in one pass if it fits into the first buffer, otherwise in two",
        arguments: [0, 1, 15, 16, 500, 993, 994, 5000])
    func whole(length: Int) {
        for value in [
            String(repeating: "e", count: length), String(String(repeating: "é", count: length).dropFirst(length / 2)),
        ] {
            var passes = 0
            let written = HeadWriter.buffer(more: 3) { head in
                passes += 1
                head.text("HTTP/1.1 200 ")
                head.endLine()
                head.field("X-A", value)
                head.text("Connection")
                head.endLine()
                head.endLine()
            }
            let expected = "HTTP/1.1 200 \r\nX-A: \(value)\r\nConnection\r\n\r\n"
            #expect(String(buffer: written) == expected && written.writableBytes >= 3)
            #expect(passes == (expected.utf8.count <= 1024 ? 1 : 2))
        }
    }
}
