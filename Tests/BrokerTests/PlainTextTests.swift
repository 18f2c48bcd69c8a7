import Testing

@testable import Broker

/// The search for bytes that need escaping reads eight bytes at a time.
///
/// The search must find the same bytes as a search byte by byte.
@Suite("Checks for plain text", .timeLimit(.minutes(1)))
struct PlainTextTests {
    private static let isEscaped: @Sendable (UInt8) -> Bool = { byte in
        byte < 0x20 || byte == 0x22 || byte == 0x5C || byte == 0x7F
    }

    @Test(
        "Any one byte of a plain text is replaced → the text is still plain exactly if the new byte needs no escape",
        arguments: [0, 1, 7, 8, 9, 15, 16, 17, 31])
    func everyByte(length: Int) {
        for filling in [UInt8(0x21), 0x61, 0x7E] {
            for place in 0..<length {
                for byte in UInt8.min...UInt8.max {
                    var bytes = [UInt8](repeating: filling, count: length)
                    bytes[place] = byte
                    // The neighbours of the byte, such as `!`, are plain bytes whose values are next to escaped ones.
                    let found = bytes.withUnsafeBufferPointer { (PlainText.isJSON($0), PlainText.isASCIIOfJSON($0)) }
                    #expect(found == (!Self.isEscaped(byte), !Self.isEscaped(byte) && byte < 0x80))
                }
            }
        }
    }

    @Test("A text → visible ASCII only if each of its bytes is in 0x21 to 0x7E", arguments: [1, 7, 8, 9, 17])
    func visible(length: Int) {
        for place in 0..<length {
            for byte in UInt8(0)...0x7F {
                var bytes = [UInt8](repeating: 0x7E, count: length)
                bytes[place] = byte
                #expect(PlainText.isVisible(String(decoding: bytes, as: UTF8.self)) == (0x21...0x7E).contains(byte))
            }
        }
        #expect(!PlainText.isVisible("tokén"))
        #expect(!PlainText.isVisible("a-longer-tokén-than-eight"))
        #expect(PlainText.isVisible(""))
    }
}
