/// An answer to the phone.
struct PlaygroundAnswer: Sendable {
    let status: Int
    let headers: [(String, String)]
    let body: [UInt8]

    /// The first value of a header field, whose name is compared independent of case.
    func header(_ name: String) -> String? {
        headers.first { $0.0.lowercased() == name.lowercased() }?.1
    }

    /// The body as JSON; null if it is something else.
    var json: JSON { (try? JSON.parse(body)) ?? .null }

    /// A problem document's code.
    var code: String { json["code"]?.text ?? "" }
}
