/// The settings of tracing: where spans are sent (`tracing`).
struct TracingSettings: Sendable {
    /// The URL that receives spans by POST.
    let url: String
    let isLoopback: Bool
    /// The fraction of recorded traces, from 0 to 1.
    let sample: Double

    private static let path = "/v1/traces"

    /// Reads the section; nil if tracing is off.
    init?(_ section: ConfigSection) {
        let text = section.text("otlp", limit: 2048)
        let sample = section.scalar("sample")?.text
        if section.context.isCataloguing { return nil }
        guard let text else {
            if section.has("sample") { section.report("otlp", "is needed, because it names the receiver of traces") }
            return nil
        }
        guard let url = WebURL(text) else {
            section.report("otlp", "has to be an http or https URL, such as `http://127.0.0.1:4318`")
            return nil
        }
        if !url.isSecure, !url.isLoopback {
            section.warn("otlp", "is plain http, so anyone on the way can read the traces")
        }
        let base = text.hasSuffix("/") ? String(text.dropLast()) : text
        self.url = base.hasSuffix(Self.path) ? base : base + Self.path
        isLoopback = url.isLoopback
        guard let sample else {
            self.sample = 1
            return
        }
        guard let number = Double(sample), (0...1).contains(number) else {
            section.report("sample", "has to be a number from 0 to 1")
            return nil
        }
        self.sample = number
    }
}
