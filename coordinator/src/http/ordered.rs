//! The frame of what is set by `PUT` and cleared by `DELETE` at the same place: both are orders under terms, about a pool or an
//! agent, and differ in what is said of them only.

/// Makes the two handlers, with what the document says of them: whose it is, the path, which [`crate::orders::Order`] it is, and for
/// each handler its words, its name and its operation, and the body of the first.
macro_rules! ordered {
    (pool $($rest:tt)*) => {
        $crate::http::ordered::ordered! {
            @ Pool PoolSetting PoolOrdering "pools"
            ("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")
            $($rest)*
        }
    };
    (agent $($rest:tt)*) => {
        $crate::http::ordered::ordered! {
            @ Agent AgentSetting AgentOrdering "control"
            ("id" = uuid::Uuid, Path, description = "The agent's id")
            $($rest)*
        }
    };
    (
        @ $Of:ident $Setting:ident $Ordering:ident $tag:tt $of:tt
        $path:tt $Order:ident;
        $(#[$setting:meta])* $set:ident = $set_id:tt $Body:ident;
        $(#[$clearing:meta])* $clear:ident = $clear_id:tt;
    ) => {
        $(#[$setting])*
        #[utoipa::path(
            put,
            path = $path,
            operation_id = $set_id,
            tag = $tag,
            params($of, $crate::http::terms::DryRun, $crate::http::terms::IfMatch),
            request_body = $Body,
            responses($crate::http::openapi::$Setting),
            security(("token" = ["operator"]))
        )]
        pub async fn $set(
            axum::extract::State(coordinator): axum::extract::State<$crate::Coordinator>,
            $crate::http::auth::Operator(caller): $crate::http::auth::Operator,
            $crate::http::body::$Of(of): $crate::http::body::$Of,
            terms: $crate::orders::Terms,
            $crate::http::body::Json(body): $crate::http::body::Json<$Body>,
        ) -> axum::response::Response {
            let order = $crate::orders::Order::$Order(of, Some(body.into()));
            $crate::http::terms::order(&coordinator, &caller, order, terms).await
        }

        $(#[$clearing])*
        #[utoipa::path(
            delete,
            path = $path,
            operation_id = $clear_id,
            tag = $tag,
            params($of, $crate::http::terms::DryRun, $crate::http::terms::IfMatch),
            responses($crate::http::openapi::$Ordering),
            security(("token" = ["operator"]))
        )]
        pub async fn $clear(
            axum::extract::State(coordinator): axum::extract::State<$crate::Coordinator>,
            $crate::http::auth::Operator(caller): $crate::http::auth::Operator,
            $crate::http::body::$Of(of): $crate::http::body::$Of,
            terms: $crate::orders::Terms,
        ) -> axum::response::Response {
            $crate::http::terms::order(&coordinator, &caller, $crate::orders::Order::$Order(of, None), terms).await
        }
    };
}

pub(crate) use ordered;
