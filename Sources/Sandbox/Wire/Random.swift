/// Random names and secrets.
enum Random {
    static func token(_ prefix: String = "", bytes count: Int = 24) -> String {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        return prefix + Base64URL.encode(bytes)
    }
}
