import Broker
import HTTPTypes

extension TraceSpan {
    /// Ends a request's span, named by its method and route template.
    func endRequest(
        _ method: HTTPRequest.Method, _ template: String, _ status: Int, _ problem: BrokerProblem?,
        _ scope: RequestScope
    ) {
        let method = TraceMethod.name(method.rawValue)
        rename(template == "-" ? method : "\(method) \(template)")
        set("http.request.method", method)
        if template != "-" { set("http.route", template) }
        set("http.response.status_code", status)
        set("coatcheck.request_id", scope.requestID)
        if let session = scope.session { set("coatcheck.session", session.text) }
        if let problem { set("error.type", problem.code.rawValue) }
        end(status >= 500 ? problem?.code.rawValue ?? "error" : nil)
    }
}
