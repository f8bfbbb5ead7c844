from django.urls import path

from trash import act_views as views

app_name = "acts"
urlpatterns = [
    path("plans/<int:plan_id>/authorise/", views.authorise, name="authorise"),
    path("plans/<int:plan_id>/undo/", views.undo, name="undo"),
    path("<int:act_id>/", views.detail, name="detail"),
    path("<int:act_id>/panel/", views.panel, name="panel"),
    path("<int:act_id>/proof/", views.proof, name="proof"),
    path("<int:act_id>/stop/", views.stop, name="stop"),
    path("<int:act_id>/pause/", views.pause, name="pause"),
    path("<int:act_id>/resume/", views.resume, name="resume"),
]
