import Foundation

/// Members that many log lines have in common, formatted once.
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
