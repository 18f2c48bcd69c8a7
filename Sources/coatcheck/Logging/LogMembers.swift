import Foundation

/// Members that many lines share, written once.
struct LogMembers: Sendable {
    let bytes: [UInt8]

    init(_ members: [(name: String, value: String)]) {
        var bytes: [UInt8] = []
        for (name, value) in members {
            bytes.append(contentsOf: ",\"\(name)\":".utf8)
            LogText.append(value, to: &bytes)
        }
        self.bytes = bytes
    }
}
